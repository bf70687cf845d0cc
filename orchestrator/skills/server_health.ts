// Ask each server of the default stack for something small that changes nothing, and say which of them answers.
import { list_allowed_directories } from '/workspace/servers/filesystem/list_allowed_directories.js';
import { open_nodes } from '/workspace/servers/memory/open_nodes.js';
import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';

const MAX_PROBLEM_CHARACTERS = 300;

// In the order of their names, which is that of the result.
const QUESTIONS: { server: string; ask: () => Promise<unknown> }[] = [
  { server: 'filesystem', ask: () => list_allowed_directories() },
  { server: 'memory', ask: () => open_nodes({ names: [] }) },
  { server: 'postgres', ask: () => execute_sql({ sql: 'select 1 as one' }) },
];

export default async function run(input: { servers?: string[] }) {
  const known = QUESTIONS.map((question) => question.server);
  const wanted = input.servers ?? known;
  const unknown = wanted.find((server) => !known.includes(server));
  if (unknown !== undefined) throw new Error(`\`servers\` must be among ${known.join(', ')}; ${unknown} is not.`);

  const servers = [];
  for (const { server, ask } of QUESTIONS.filter((question) => wanted.includes(question.server))) {
    const problem = await problemWith(ask);
    servers.push({ server, ok: problem === '', problem });
  }
  return { servers, healthy: servers.filter((each) => each.ok).length };
}

/** Return what goes wrong when it is asked, or nothing. */
async function problemWith(ask: () => Promise<unknown>): Promise<string> {
  try {
    await ask();
    return '';
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return message.slice(0, MAX_PROBLEM_CHARACTERS) || 'failed without a message';
  }
}
