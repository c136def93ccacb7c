// Does what the tests ask for with the code of docs/integrate/retries.md, compiled.
//
// Argument: the file with that code. Reads {"call", "arguments"} as JSON; prints {"returned"}, or what was thrown.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const code = await import(pathToFileURL(process.argv[2]).href);
const question = JSON.parse(readFileSync(0, "utf8"));
let told;
try {
  told = { returned: await code[question.call](...question.arguments) };
} catch (thrown) {
  told = { threw: thrown.constructor.name, error: thrown.error, retryAfterS: thrown.retryAfterS };
}
console.log(JSON.stringify(told));
