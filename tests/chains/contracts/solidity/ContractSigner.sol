// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @notice Signs as a contract does (ERC-1271): what its key signed, it says is signed.
/// @dev It can also be told to answer otherwise, to refuse an answer, and what to call while it is asked.
contract ContractSigner {
    enum Manner {
        Honest,
        AnswersOtherwise,
        Reverts
    }

    address private immutable _key;
    Manner private _manner;
    address private _target;
    bytes private _message;

    constructor(address key) {
        _key = key;
    }

    function behave(Manner manner) external {
        _manner = manner;
    }

    function arm(address target, bytes calldata message) external {
        (_target, _message) = (target, message);
    }

    /// @notice Makes the call outside of any question, to show what it is worth there.
    function strike() public {
        (bool success, ) = _target.call(_message);
        require(success, "signer: call refused");
    }

    /// @dev No view, as the standard has it: this one would like to change something.
    function isValidSignature(bytes32 hash, bytes calldata signature) external returns (bytes4) {
        require(_manner != Manner.Reverts, "signer: no");
        if (_target != address(0)) {
            strike();
        }
        bool isSigned = ECDSA.recover(hash, signature) == _key;
        return isSigned && _manner == Manner.Honest ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}
