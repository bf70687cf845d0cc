// Calls tools through the gateway, the only address that a sandbox can reach.

import { checkedArguments, type Tool } from './_arguments.js';
import { post, type Reply } from './_http.js';
import { errorMessage, unwrap, type CallResult } from './content.js';
import { InvalidArguments, SkillStale, ToolDenied, ToolError, ToolLimitExceeded, ToolUnavailable } from './errors.js';

export type { Tool } from './_arguments.js';
export * from './errors.js';

type About = { server: string; tool: string };

/** Checks the arguments, calls the tool and returns its result as a value. */
export async function callTool<T>(tool: Tool, args: unknown, take?: (result: CallResult) => Promise<CallResult>): Promise<T> {
  const about = { server: tool.server, tool: tool.name };
  const names = `"server":${JSON.stringify(tool.server)},"tool":${JSON.stringify(tool.name)}`;
  const result = await ask('/call', `{${names},"arguments":${checkedArguments(tool, args)}}`, about);
  if ((result as CallResult).isError) {
    const message = errorMessage(result as CallResult);
    const { hintOnPaths } = await import('./_paths.js');
    throw new ToolError(message, { ...about, ...hintOnPaths(message, args) });
  }
  const taken = take ? await take(result as CallResult) : (result as CallResult);
  return unwrap(taken, about, tool.contents) as T;
}

/** Returns the gateway's answer, or throws the ToolError that it stands for. */
export async function ask(path: string, body: string, about: About): Promise<unknown> {
  // Errors are made here and not where the reply arrives, so that their stack leads to the program.
  const reply = await posted(path, body, about);
  if ('failure' in reply) {
    const message = `The gateway gave no usable answer: ${reply.failure.message}`;
    throw new ToolUnavailable(message, { ...about, code: 'tool_unavailable' });
  }
  let answer: unknown;
  try {
    answer = JSON.parse(reply.body);
  } catch {
    throw refusal(reply.status, undefined, about);
  }
  if (reply.status === 200) return answer;
  throw refusal(reply.status, answer, about);
}

function posted(path: string, body: string, about: About): Promise<Reply> {
  const { CODE_EXECUTOR_GATEWAY: gateway, CODE_EXECUTOR_GRANT: grant } = process.env;
  if (!gateway || !grant) {
    const message = 'Tools can be called only where CODE_EXECUTOR_GATEWAY and CODE_EXECUTOR_GRANT are set.';
    throw new ToolUnavailable(message, { ...about, code: 'tool_unavailable' });
  }
  return post(gateway, path, grant, body);
}

const errorsByCode: Record<string, typeof ToolError> = {
  tool_denied: ToolDenied,
  grant_invalid: ToolDenied,
  tool_unavailable: ToolUnavailable,
  invalid_arguments: InvalidArguments,
  limit_exceeded: ToolLimitExceeded,
  skill_stale: SkillStale,
};

function errorFor(status: number): typeof ToolError {
  if (status === 401 || status === 403) return ToolDenied;
  if (status === 400 || status === 422) return InvalidArguments;
  if (status === 413 || status === 429) return ToolLimitExceeded;
  return status >= 500 ? ToolUnavailable : ToolError;
}

function refusal(status: number, parsed: unknown, about: About): ToolError {
  const { code, message, hint } = (parsed ?? {}) as { code?: string; message?: string; hint?: string };
  const known = code !== undefined && Object.hasOwn(errorsByCode, code) ? errorsByCode[code] : undefined;
  const Kind = known ?? errorFor(status);
  const text = message ?? `The gateway answered with status ${status} and no explanation.`;
  return new Kind(text, { ...about, ...(code && { code }), ...(hint && { hint }) });
}
