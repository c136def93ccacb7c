// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @notice Keeps a fee on every transfer.
contract FeeToken {
    mapping(address owner => uint256) public balanceOf;
    uint256 private immutable _fee;

    constructor(uint256 fee) {
        _fee = fee;
    }

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
        balanceOf[to] += amount > _fee ? amount - _fee : 0;
        return true;
    }
}
