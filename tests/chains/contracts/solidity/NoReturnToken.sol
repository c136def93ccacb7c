// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @notice Returns nothing from its transfers, as USDT does on Ethereum.
contract NoReturnToken {
    event Transfer(address indexed from, address indexed to, uint256 value);

    mapping(address owner => uint256) public balanceOf;

    function mint(address owner, uint256 amount) external {
        balanceOf[owner] += amount;
    }

    function transfer(address to, uint256 amount) external {
        _move(msg.sender, to, amount);
    }

    function transferFrom(address owner, address to, uint256 amount) external {
        _move(owner, to, amount);
    }

    function _move(address owner, address to, uint256 amount) private {
        balanceOf[owner] -= amount;
        balanceOf[to] += amount;
        emit Transfer(owner, to, amount);
    }
}
