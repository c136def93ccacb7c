// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

/// @notice Pays as it should, but misbehaves as it is told towards single payees, and when it is asked about single
///         authorizations.
/// @dev `need` is the gas without which it refuses, measured where a call begins.
contract HostileToken {
    enum Manner {
        Honest,
        Reverts,
        RevertsAtLength,
        BurnsAllGas,
        ReturnsAtLength,
        ReturnsTwo,
        ReturnsAByteLess,
        ReturnsNothing,
        Moves
    }

    mapping(address owner => uint256) public balanceOf;
    uint256 public need;
    uint256 public needOfView;

    mapping(address payee => Manner) private _mannerTo;
    mapping(bytes32 nonce => Manner) private _mannerOf;

    function mint(address owner, uint256 amount) external {
        balanceOf[owner] += amount;
    }

    function behave(address payee, Manner manner) external {
        _mannerTo[payee] = manner;
    }

    function behaveWhenAsked(bytes32 nonce, Manner manner) external {
        _mannerOf[nonce] = manner;
    }

    function wantGas(uint256 need_, uint256 needOfView_) external {
        (need, needOfView) = (need_, needOfView_);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        uint256 given = gasleft();
        require(given >= need, "token: too little gas");
        _misbehave(_mannerTo[to]);
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
        return true;
    }

    /// @dev No view, as the standard has it: this one may change something.
    function authorizationState(address authorizer, bytes32 nonce) external returns (bool) {
        uint256 given = gasleft();
        require(given >= needOfView, "token: too little gas");
        if (_mannerOf[nonce] == Manner.Moves) {
            balanceOf[authorizer] += 1;
        }
        _misbehave(_mannerOf[nonce]);
        return false;
    }

    function _misbehave(Manner manner) private pure {
        require(manner != Manner.Reverts, "token: blocked");
        // The words after the first are new memory, which takes most of what a token has to spend.
        if (manner == Manner.RevertsAtLength) _answer(200_000, 1, true);
        if (manner == Manner.ReturnsAtLength) _answer(200_000, 1, false);
        if (manner == Manner.BurnsAllGas) while (true) {}
        if (manner == Manner.ReturnsTwo) _answer(32, 2, false);
        if (manner == Manner.ReturnsAByteLess) _answer(31, 0, false);
        if (manner == Manner.ReturnsNothing) _answer(0, 0, false);
    }

    function _answer(uint256 length, uint256 word, bool isRefusal) private pure {
        assembly ("memory-safe") {
            mstore(0, word)
            if isRefusal { revert(0, length) }
            return(0, length)
        }
    }
}
