// The same for syntax that is more than types.

enum Level {
  Low = 1,
  High = Low << 1,
}

namespace Names {
  export const of = (level: Level): string => Level[level];
}

class Point {
  constructor(
    public readonly x: number,
    private level: Level = Level.Low,
  ) {}

  name(): string {
    return `${Names.of(this.level)} ${this.x}`;
  }
}

export default new Point(1, Level.High).name();
