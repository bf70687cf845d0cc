// Find the lines that have a text, in the files of a folder.
import { directory_tree } from '/workspace/servers/filesystem/directory_tree.js';
import { get_file_info } from '/workspace/servers/filesystem/get_file_info.js';
import { read_text_file } from '/workspace/servers/filesystem/read_text_file.js';

const MAX_FILES = 200;
const MAX_FILE_BYTES = 1_000_000;
const MAX_EXPRESSION_CHARACTERS = 200;
const MAX_LINE_CHARACTERS = 2_000; // an expression looks no further, or a long line might keep it busy for long
const SHOWN_CHARACTERS = 200;

interface Entry { name: string; type: string; children?: Entry[] }
interface Input {
  folder: string;
  text: string;
  regex?: boolean;
  ignoreCase?: boolean;
  pattern?: string;
  limit?: number;
}

export default async function run(input: Input) {
  const { folder, text, regex = false, ignoreCase = false, pattern = '*', limit = 100 } = input;
  if (!folder.startsWith('/')) throw new Error('`folder` must be an absolute path, such as /workspace/notes.');
  if (!(limit >= 1 && limit <= 1000)) throw new Error('`limit` must be between 1 and 1000.');
  const expression = expressionFor(text, regex, ignoreCase);

  const root = folder.replace(/\/+$/, '');
  const tree: Entry[] = JSON.parse((await directory_tree({ path: root || '/' })).content);
  const fits = nameMatcher(pattern);
  const all = filesOf(tree).filter((path) => fits(path.slice(path.lastIndexOf('/') + 1)));

  const matches = [];
  const skipped = [];
  let searched = 0;
  for (const path of all.slice(0, MAX_FILES)) {
    if (matches.length > limit) break;
    searched += 1;
    try {
      const lines = (await textOf(`${root}/${path}`)).split(/\r?\n/);
      for (const [index, line] of lines.entries()) {
        if (!expression.test(line.slice(0, MAX_LINE_CHARACTERS))) continue;
        matches.push({ path, line: index + 1, text: line.slice(0, SHOWN_CHARACTERS) });
        if (matches.length > limit) break; // one more than wanted tells that there are others
      }
    } catch (error) {
      skipped.push({ path, problem: error instanceof Error ? error.message : String(error) });
    }
  }
  let note = '';
  if (matches.length > limit) note = `Only the first ${limit} matches are shown; raise \`limit\` for more.`;
  else if (all.length > MAX_FILES) note = `Only ${MAX_FILES} of ${all.length} files were searched; narrow \`pattern\`.`;
  return { searched, matches: matches.slice(0, limit), skipped, note };
}

function expressionFor(text: string, regex: boolean, ignoreCase: boolean): RegExp {
  if (text === '' || text.length > MAX_EXPRESSION_CHARACTERS) {
    throw new Error(`\`text\` must have 1 to ${MAX_EXPRESSION_CHARACTERS} characters.`);
  }
  try {
    return new RegExp(regex ? text : text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), ignoreCase ? 'i' : '');
  } catch {
    throw new Error('`text` must be a regular expression of JavaScript, because `regex` is true.');
  }
}

async function textOf(path: string): Promise<string> {
  const size = Number(/^size: (\d+)$/m.exec((await get_file_info({ path })).content)?.[1]);
  if (!(size <= MAX_FILE_BYTES)) throw new Error(`has more than ${MAX_FILE_BYTES} bytes`);
  const { content } = await read_text_file({ path });
  if (content.includes('\0')) throw new Error('is not text');
  return content;
}

/** Return the paths of all files below the folder, in the order of their characters. */
function filesOf(entries: Entry[], above = ''): string[] {
  const paths = entries.flatMap((entry) =>
    entry.type === 'directory' ? filesOf(entry.children ?? [], `${above}${entry.name}/`) : [above + entry.name],
  );
  return paths.sort();
}

/** Return a test for names, in which `*` stands for any characters and `?` for one. */
function nameMatcher(pattern: string): (name: string) => boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*').replace(/\?/g, '.');
  const expression = new RegExp(`^${source}$`, 's');
  return (name) => expression.test(name);
}
