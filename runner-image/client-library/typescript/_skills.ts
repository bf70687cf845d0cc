// Calls skills: those in TypeScript here, in this process, and the others through the gateway, in a sandbox of their own.

import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { checkedArguments, type Tool } from './_arguments.js';
import { ask, callTool } from './_client.js';
import type { CallResult } from './content.js';
import { SkillError, SkillStale } from './errors.js';

export type Skill = Tool & { isHere?: boolean };

const MAX_DEPTH = 3;
const OUT = '/workspace/out';
const [MOST_LEFT, MOST_LEFT_BYTES] = [100, 768 * 1024]; // what the gateway takes
const codeFolder = `${dirname(dirname(fileURLToPath(import.meta.url)))}/skills/_code`;

/** The skills that are being run, the outermost first: those that wait for this sandbox, then those in this process. */
const around = new AsyncLocalStorage<string[]>();
const outside = (process.env.CODE_EXECUTOR_SKILLS_AROUND ?? '').split(' ').filter(Boolean);
const told = new Set<string>();

/** Checks the arguments, runs the skill and returns its result. */
export async function callSkill<T>(skill: Skill, args: unknown): Promise<T> {
  if (!skill.isHere) {
    requireEnd(chainWith(skill.name));
    return callTool<T>(skill, args, (result) => keepFiles(result, skill.name));
  }
  const given: unknown = JSON.parse(checkedArguments(skill, args));
  await tell(skill.name, false);
  try {
    // The caller gets its own copy, with what JSON makes of it, as from a skill in the other language.
    return JSON.parse(asJson(skill.name, await run(skill.name, given))) as T;
  } catch (error) {
    await tell(skill.name, true);
    throw error;
  }
}

/** Throws that a skill cannot be used, because the tools have changed under it. */
export function refuse(name: string, version: string, drift: string[]): void {
  void version;
  throw new SkillStale(`The tools changed since it was proven: ${drift.join(' ')}`, about(name));
}

/** Runs a skill as the whole program: its result is printed, or handed back to whoever called it. */
export async function answer(name: string, given: string): Promise<void> {
  const result = await run(name, JSON.parse(given));
  const wanted = process.env.CODE_EXECUTOR_RETURNS;
  if (wanted) {
    const files = wanted === 'with files' ? JSON.stringify(await filesLeft(name)) : '{}';
    await ask('/return', `{"value": ${asJson(name, result)}, "files": ${files}}`, about(name));
  } else if (typeof result === 'string') console.log(result);
  else if (result !== undefined && result !== null) console.log(asJson(name, result));
}

/** Returns the files in /workspace/out, as base64 by their path there. */
async function filesLeft(name: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  let size = 0;
  for (const entry of existsSync(OUT) ? await readdir(OUT, { recursive: true, withFileTypes: true }) : []) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    size += (await stat(path)).size;
    if (size > MOST_LEFT_BYTES || Object.keys(files).length === MOST_LEFT) {
      const most = `${MOST_LEFT} files or ${MOST_LEFT_BYTES / 1024} KiB`;
      throw new SkillError(`It leaves more than ${most} in ${OUT}: too much for a program in another language.`, about(name));
    }
    files[relative(OUT, path)] = (await readFile(path)).toString('base64');
  }
  return files;
}

/** Puts the files that a skill left where it left them in its own sandbox. */
async function keepFiles(result: CallResult, skill: string): Promise<CallResult> {
  const contents = (result.content ?? []) as { type: string; resource: { uri: string; blob: string } }[];
  for (const { resource } of contents.filter(({ type }) => type === 'resource')) {
    const path = decodeURIComponent(resource.uri.replace('file://', ''));
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, Buffer.from(resource.blob, 'base64'));
    } catch (error) {
      throw new SkillError(`A file that it left cannot be kept: ${(error as Error).message}`, about(skill));
    }
  }
  return { ...result, content: contents.filter(({ type }) => type !== 'resource') };
}

const about = (name: string): { server: string; tool: string } => ({ server: 'skills', tool: name });

async function run(name: string, given: unknown): Promise<unknown> {
  const chain = chainWith(name);
  requireEnd(chain);
  // A path that no compiler follows: what the skill is made of is its own affair.
  const module = (await import(pathToFileURL(`${codeFolder}/${name}.ts`).href)) as { default: (input: unknown) => unknown };
  return around.run(chain, async () => module.default(given));
}

const chainWith = (name: string): string[] => [...(around.getStore() ?? outside), name];

function requireEnd(chain: string[]): void {
  const name = chain.at(-1)!;
  const way = chain.join(' → ');
  if (chain.indexOf(name) < chain.length - 1) throw new SkillError(`Skills must not call themselves: ${way}.`, about(name));
  if (chain.length > MAX_DEPTH) throw new SkillError(`Skills may be at most ${MAX_DEPTH} deep: ${way}.`, about(name));
}

/** Counts the use of a skill, once in each program; a gateway that does not answer changes nothing. */
async function tell(name: string, failed: boolean): Promise<void> {
  const use = `${name} ${failed}`;
  if (told.has(use)) return;
  told.add(use);
  try {
    await ask('/used', JSON.stringify({ skill: name, failed }), about(name));
  } catch {
    // It is only counted.
  }
}

function asJson(name: string, result: unknown): string {
  try {
    return JSON.stringify(result) ?? 'null';
  } catch (error) {
    throw new SkillError(`What the skill returned cannot be written as JSON: ${(error as Error).message}`, about(name));
  }
}
