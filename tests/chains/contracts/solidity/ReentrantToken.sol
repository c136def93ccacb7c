// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @notice Calls back once, in the first transfer after it was armed.
/// @dev `insist` decides what follows when the call back is refused: true reverts the transfer, false lets it go
///      through as if nothing had been tried.
contract ReentrantToken {
    mapping(address owner => uint256) public balanceOf;
    uint256 public attempts;
    /// The first word that the call back was answered with: storage is dear, and a list grants only so much gas.
    bytes32 public answer;

    address private _target;
    bytes private _message;
    bool private _insist;

    function mint(address owner, uint256 amount) external {
        balanceOf[owner] += amount;
    }

    function arm(address target, bytes calldata message, bool insist) external {
        (_target, _message, _insist) = (target, message, insist);
    }

    /// @notice Makes the call outside of any transfer, to show what it is worth there.
    function strike() external {
        _callBack();
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
        if (_target != address(0)) {
            _callBack();
        }
        return true;
    }

    function _callBack() private {
        // Disarmed first: what the call back transfers must not call back again, or its refusal would pass for the
        // refusal of the first.
        address target = _target;
        _target = address(0);
        attempts += 1;
        (bool success, bytes memory returned) = target.call(_message);
        answer = bytes32(returned);
        require(success || !_insist, "token: call back refused");
    }
}
