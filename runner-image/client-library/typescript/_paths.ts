// Tells a program that its sandbox and a server have files of their own, though both may call them /workspace/...

import { existsSync } from 'node:fs';

const notThere =
  /ENOENT|EACCES|no such file|not found|does not exist|doesn't exist|access denied|outside.{0,20}allowed|cannot find/i;

/** Returns what to do if a tool did not find a file that the sandbox has. */
export function hintOnPaths(message: string, args: unknown): { hint?: string } {
  const path = notThere.test(message) ? textsIn(args).find(isInSandbox) : undefined;
  if (path === undefined) return {};
  const hint =
    `${path} is in the sandbox, and the tool's server has files of its own: ` +
    'read it here with node:fs, or pass its content to a tool that writes files.';
  return { hint };
}

const isInSandbox = (text: string): boolean => /[^/]\//.test(text) && text.length < 1024 && existsSync(text);

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
