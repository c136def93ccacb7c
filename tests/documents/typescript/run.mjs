// Checks and compiles the TypeScript of docs/integrate/retries.md, and does what the tests ask for with it.
//
// Arguments: the folder in which the compiler is installed, a folder to work in, and the file with the page's code.
// Reads {"call", "arguments"} as JSON; prints {"returned"} or {"threw", "error", "retryAfterS"}.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [installed, folder, page] = process.argv.slice(2);
const ts = createRequire(join(installed, "package.json"))("typescript");
const options = { strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, noEmit: true };
const program = ts.createProgram([page], { ...options, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"], types: [] });
const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
if (faults.length) throw new Error(faults.join("\n"));

const compiled = join(folder, "page.mjs");
writeFileSync(compiled, ts.transpileModule(readFileSync(page, "utf8"), { compilerOptions: options }).outputText);
const code = await import(pathToFileURL(compiled).href);
const question = JSON.parse(readFileSync(0, "utf8"));
let told;
try {
  told = { returned: await code[question.call](...question.arguments) };
} catch (thrown) {
  told = { threw: thrown.constructor.name, message: thrown.message, error: thrown.error, retryAfterS: thrown.retryAfterS };
}
console.log(JSON.stringify(told));
