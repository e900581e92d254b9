/** Lines of each kind that are remembered. */
const most = 100;
/** UTF-16 units of a line. */
const longest = 4096;
const warning = /^\{"level":"(?:warn|error|fatal)"/;

/** The newest lines of the log, oldest first. */
export type RecentLines = {
	readonly all: () => readonly string[];
	/** Those that warn or worse, which a busy daemon would soon push out of the others. */
	readonly warnings: () => readonly string[];
};

/** Remembers the newest lines: JSON, as they were written, each with its end cut off where it is long. */
export function createRecentLines(): RecentLines & {readonly note: (line: string) => void} {
	const [all, warnings] = [createRing(), createRing()];
	return {
		all: all.lines,
		warnings: warnings.lines,
		note(line) {
			const kept = line.length > longest ? line.slice(0, longest) : line;
			all.add(kept);
			if (warning.test(kept)) {
				warnings.add(kept);
			}
		},
	};
}

function createRing() {
	const kept: string[] = [];
	let next = 0;
	return {
		add(line: string): void {
			kept[next] = line;
			next = (next + 1) % most;
		},
		lines: (): readonly string[] => (kept.length < most ? [...kept] : [...kept.slice(next), ...kept.slice(0, next)]),
	};
}
