// Checks the TypeScript of docs/integrate/retries.md, strictly, and compiles it. Prints the faults as JSON.
//
// Arguments: the folder in which the compiler is installed, the file with the page's code, and the file to write.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [installed, page, compiled] = process.argv.slice(2);
const ts = createRequire(join(installed, "package.json"))("typescript");
const options = { strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 };
const program = ts.createProgram([page], { ...options, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"], types: [] });
const faults = ts.getPreEmitDiagnostics(program);
writeFileSync(compiled, ts.transpileModule(readFileSync(page, "utf8"), { compilerOptions: options }).outputText);
console.log(JSON.stringify(faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"))));
