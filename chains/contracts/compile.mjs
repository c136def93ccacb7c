// Compiles Solidity sources. Reads a JSON list of {name, source} from standard input, prints a JSON list in that order:
// {errors}, or {warnings, compiler, abi, bytecode, runtimeBytecode, immutableReferences} of the contract of that name.
//
// Argument: the folder in which the compiler and OpenZeppelin's contracts are installed.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const solc = require("solc");

const settings = {
  evmVersion: "cancun",
  optimizer: { enabled: true, runs: 10_000 },
  // Without the metadata the bytecode depends on the code alone: a new comment leaves it as it is.
  metadata: { appendCBOR: false, bytecodeHash: "none" },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode"] } },
};
const findImport = (path) => ({ contents: readFileSync(require.resolve(path), "utf8") });

function compile({ name, source }) {
  const input = { language: "Solidity", sources: { [`${name}.sol`]: { content: source } }, settings };
  const { errors: complaints = [], contracts } = JSON.parse(solc.compile(JSON.stringify(input), { import: findImport }));
  const errors = complaints.filter(({ severity }) => severity === "error").map((one) => one.formattedMessage);
  if (errors.length) return { errors };
  const { abi, evm } = contracts[`${name}.sol`][name];
  const immutables = Object.values(evm.deployedBytecode.immutableReferences).flat();
  return {
    warnings: complaints.map((one) => one.formattedMessage),
    compiler: `solc ${solc.version()}`,
    abi,
    bytecode: `0x${evm.bytecode.object}`,
    runtimeBytecode: `0x${evm.deployedBytecode.object}`,
    immutableReferences: immutables.sort((one, other) => one.start - other.start),
  };
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(compile)));
