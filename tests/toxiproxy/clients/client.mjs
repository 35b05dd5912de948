// node client.mjs URL LIMIT CONNECT_LIMIT: one fetch for each line of standard input, and a line for each.
// fetch has no limit for connecting of its own that a caller can set: the limit aborts all of the call.
import readline from "node:readline";

const [url, limit] = process.argv.slice(2);
for await (const _ of readline.createInterface({ input: process.stdin })) {
  try {
    const reply = await fetch(url, { signal: AbortSignal.timeout(Number(limit) * 1000) });
    const text = await reply.text();
    console.log(text.length >= 2000 ? "good answer" : "silent: a cut answer taken as good");
  } catch (error) {
    const cause = error.cause?.code ?? error.cause?.name;
    console.log(`exception ${error.name}${cause ? ` (${cause})` : ""}`);
  }
}
