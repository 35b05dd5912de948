// A client of TypeScript's SDKs (1, 2 or 2-auto), told and telling as python_1.py is.
import { createInterface } from 'node:readline';

const sdk = process.argv[2];
const patientMs = 60_000;
let Client, StreamableHTTPClientTransport;
if (sdk === '1') {
  ({ Client } = await import('@modelcontextprotocol/sdk/client/index.js'));
  ({ StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js'));
} else {
  ({ Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client'));
}
const options = sdk === '2-auto' ? { versionNegotiation: { mode: 'auto' } } : {};
const tell = (step, saw) => console.log(JSON.stringify({ step, ...saw }));
const refused = (error) =>
  typeof error.code === 'number' && error.name.match(/McpError|ProtocolError/)
    ? { code: error.code, message: error.message }
    : { exception: error.name + (typeof error.code === 'string' ? ` ${error.code}` : ''), message: error.message };
process.on('uncaughtException', (error) => tell('(client)', refused(error)));

async function taken(client, step, limitMs) {
  if (step === 'list') {
    const { tools } = await client.listTools();
    return { tools: tools.map((tool) => [tool.name, tool.description ?? null, tool.inputSchema]) };
  }
  const walks = step === 'walk' || step === 'cancel';
  const call = { name: walks ? 'walk' : step, arguments: walks ? { steps: 5 } : step === 'weather' ? { city: 'Bern' } : {} };
  const timeout = step === 'fine' ? patientMs : limitMs;
  const given = { timeout, ...(walks ? { onprogress() {}, resetTimeoutOnProgress: true } : {}) };
  if (step === 'cancel') given.signal = AbortSignal.timeout(100);
  const got = sdk === '1' ? await client.callTool(call, undefined, given) : await client.callTool(call, given);
  return { [got.isError ? 'error' : 'text']: got.content[0]?.text ?? '' };
}

async function follow({ url, limit_s, steps }) {
  const client = new Client({ name: 'wirefault', version: '1' }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  for (const step of steps) {
    try {
      tell(step, await taken(client, step, limit_s * 1000));
    } catch (error) {
      tell(step, refused(error));
    }
  }
  await client.close();
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    await follow(JSON.parse(line));
  } catch (error) {
    tell('(client)', refused(error));
  }
  console.log('{}');
}
process.exit(0);
