// Through the Service, as a client does: ready, agents there, settings shown. Tried again for a minute.
const { BASE_URL, AUTH_TOKENS } = process.env;
const token = AUTH_TOKENS?.split(',')[0]?.trim();
const headers = token ? { authorization: `Bearer ${token}` } : {};

async function get(path) {
  const response = await fetch(BASE_URL + path, { headers, signal: AbortSignal.timeout(5000) });
  const text = await response.text();
  if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${text.slice(0, 300)}`);
  return text;
}

async function check() {
  await get('/readyz');
  const agents = Object.keys(JSON.parse(await get('/api/agents')));
  if (agents.length === 0) throw new Error('there are no agents');
  const settings = await get('/v1/settings');
  console.log(`ready, agents: ${agents.join(', ')}`);
  console.log(`settings: ${settings}`);
}

const deadline = Date.now() + 60_000;
for (;;) {
  try {
    await check();
    break;
  } catch (error) {
    if (Date.now() > deadline) throw error;
    console.log(String(error.cause ?? error));
    await new Promise(resolve => setTimeout(resolve, 1000));
  }
}
