// Starts n8n and gives it the API key that MCP_N8N_KEY holds, which the MCP server beside it uses. n8n makes such keys for
// people who log in; here nobody does, so the key goes into its database, as soon as n8n has made that.
import { spawn } from 'node:child_process';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';

const DATABASE = `${process.env.N8N_USER_FOLDER}/.n8n/database.sqlite`;
const READY = `http://127.0.0.1:${process.env.N8N_PORT}/healthz/readiness`;
const READY_SECONDS = 180;
// What its MCP server has tools for: nothing about users, their roles or how they log in.
const RESOURCES = ['workflow', 'workflowTags', 'tag', 'execution', 'executionTags', 'testRun', 'credential', 'variable',
  'dataTable', 'dataTableRow', 'dataTableColumn', 'folder'];

const { MCP_N8N_KEY: key, ...environment } = process.env;
if (!key) {
  console.error('MCP_N8N_KEY is not set in the environment of this container.');
  process.exit(64);
}

const n8n = spawn(process.execPath, ['/app/node_modules/n8n/bin/n8n', 'start'], { env: environment, stdio: 'inherit' });
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => n8n.kill(signal));
n8n.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));

await ready();
await insertKey();

async function ready() {
  for (const deadline = Date.now() + READY_SECONDS * 1000; Date.now() < deadline; await sleep(300)) {
    const answer = await fetch(READY).catch(() => undefined);
    if (answer?.ok) return;
  }
  console.error(`n8n is not ready after ${READY_SECONDS} seconds.`);
  n8n.kill('SIGTERM');
}

async function insertKey() {
  const { default: permissions } = await import('/app/node_modules/@n8n/permissions/dist/index.js');
  const scopes = [...permissions.OWNER_API_KEY_SCOPES].filter((scope) => RESOURCES.includes(scope.split(':')[0]));
  const database = new DatabaseSync(DATABASE, { timeout: 30_000 });
  const owner = database.prepare("SELECT id FROM user WHERE roleSlug = 'global:owner'").get();
  database
    .prepare(
      `INSERT INTO user_api_keys (id, userId, label, apiKey, scopes, audience) VALUES ('mcp', ?, 'mcp', ?, ?, 'public-api')
       ON CONFLICT (id) DO UPDATE SET apiKey = excluded.apiKey, scopes = excluded.scopes`,
    )
    .run(owner.id, key, JSON.stringify(scopes));
  database.close();
}
