// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @notice Moves the money and then says that it did not: who ignores the answer books wrongly.
contract FalseToken {
    mapping(address owner => uint256) public balanceOf;

    function mint(address owner, uint256 amount) external {
        balanceOf[owner] += amount;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return _move(msg.sender, to, amount);
    }

    function transferFrom(address owner, address to, uint256 amount) external returns (bool) {
        return _move(owner, to, amount);
    }

    function _move(address owner, address to, uint256 amount) private returns (bool) {
        balanceOf[owner] -= amount;
        balanceOf[to] += amount;
        return false;
    }
}
