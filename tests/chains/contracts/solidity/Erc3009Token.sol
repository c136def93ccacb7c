// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC3009} from "@openzeppelin/contracts/token/ERC20/extensions/draft-ERC3009.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @notice Moves what its owner has signed away, as USDC does (EIP-3009). Anybody mints.
contract Erc3009Token is ERC3009 {
    constructor() ERC20("USD Coin", "USDC") EIP712("USD Coin", "2") {}

    function mint(address[] calldata owners, uint256 amount) external {
        for (uint256 index = 0; index < owners.length; ++index) {
            _mint(owners[index], amount);
        }
    }

    function decimals() public pure override returns (uint8) {
        return 6;
    }
}
