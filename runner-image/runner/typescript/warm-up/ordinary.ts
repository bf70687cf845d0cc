// Ordinary TypeScript, run once before a program arrives, so that the functions of the stripper, of the module loader
// and of the console which such a program needs are compiled by then.

import { EOL } from 'node:os';
import type { PathLike } from 'node:fs';

interface Row<Value = unknown> {
  readonly name: string;
  value?: Value;
}

type Shape = { kind: 'circle'; radius: number } | { kind: 'square'; side: number };
type Named<T> = { [Key in keyof T]: T[Key] } & { path?: PathLike };

abstract class Store<T extends object> implements Iterable<T> {
  private readonly rows: Map<string, T> = new Map();
  static count = 0;

  protected abstract nameOf(row: T): string;

  add(row: T, ...others: T[]): this {
    for (const each of [row, ...others]) this.rows.set(this.nameOf(each), each);
    Store.count += 1;
    return this;
  }

  *[Symbol.iterator](): Iterator<T> {
    yield* this.rows.values();
  }
}

class Rows extends Store<Row<number>> {
  #separator: string = EOL;

  protected override nameOf(row: Row<number>): string {
    return `${row.name}${this.#separator}`;
  }
}

function area(shape: Shape): number {
  switch (shape.kind) {
    case 'circle':
      return Math.PI * shape.radius ** 2;
    default:
      return (shape as { side: number }).side ** 2;
  }
}

const load = async <T,>(source: Promise<T[]>, keep: (row: T) => boolean = () => true): Promise<T[]> => {
  try {
    const rows = await source;
    return rows.filter(keep);
  } catch (error: unknown) {
    if (error instanceof Error) throw new TypeError(error.message, { cause: error });
    throw error;
  } finally {
    Store.count ||= 0;
  }
};

const rows = new Rows().add({ name: 'a', value: 1 }, { name: 'b' });
const loaded: Named<Row<number>>[] = await load(Promise.resolve([...rows]), (row) => (row.value ?? 0) > 0);
const { name, value = area({ kind: 'square', side: 2 }), ...rest } = loaded[0]!;
const summary = { name, value, rest, pattern: /^(?<word>\w+)$/u.test(name), list: [1, 2, 3].map((n) => n * 2) };

for (let index = 0; index < 2 && summary?.list.length > index; index++) {
  if (!(summary.list[index] satisfies number | undefined)) break;
}

export const json: string = JSON.stringify(summary, null, 2);
export default summary;
