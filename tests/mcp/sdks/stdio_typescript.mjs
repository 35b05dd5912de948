// The same as stdio_python_1.py for TypeScript's SDKs; its argument is 1 or 2.
import { createInterface } from 'node:readline';

const sdk = process.argv[2];
const { Client, StdioClientTransport } =
  sdk === '1'
    ? {
        ...(await import('@modelcontextprotocol/sdk/client/index.js')),
        ...(await import('@modelcontextprotocol/sdk/client/stdio.js')),
      }
    : { ...(await import('@modelcontextprotocol/client')), ...(await import('@modelcontextprotocol/client/stdio')) };

async function follow({ limit_s, words: [command, ...args] }) {
  const client = new Client({ name: 'wirefault', version: '1' });
  await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
  for (let call = 0; call < 2; call++) {
    const given = { timeout: limit_s * 1000 };
    const asked = { name: 'echo', arguments: { city: 'Bern' } };
    let saw;
    try {
      const got = sdk === '1' ? await client.callTool(asked, undefined, given) : await client.callTool(asked, given);
      saw = { [got.isError ? 'error' : 'text']: got.content[0].text };
    } catch (error) {
      saw = typeof error.code === 'number' ? { code: error.code } : { exception: `${error.name} ${error.code ?? ''}`.trim() };
    }
    console.log(JSON.stringify(saw));
  }
  await client.close();
}

for await (const line of createInterface({ input: process.stdin })) {
  await follow(JSON.parse(line));
  console.log('{}');
}
process.exit(0);
