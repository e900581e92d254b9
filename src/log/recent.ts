/** Lines of each kind that are remembered. */
const most = 100;
/** UTF-16 units of a line. */
const longest = 4096;
const warning = /^\{"level":"(?:warn|error|fatal)"/;

/** The newest lines of the log, oldest first: JSON, as they were written, each with its end cut off where it is long. */
export class RecentLines {
	readonly #all = new Ring();
	readonly #warnings = new Ring();

	all(): readonly string[] {
		return this.#all.lines();
	}

	/** Those that warn or worse, which a busy daemon would soon push out of the others. */
	warnings(): readonly string[] {
		return this.#warnings.lines();
	}

	note(line: string): void {
		const kept = line.length > longest ? line.slice(0, longest) : line;
		this.#all.add(kept);
		if (warning.test(kept)) {
			this.#warnings.add(kept);
		}
	}
}

class Ring {
	readonly #kept: string[] = [];
	#next = 0;

	add(line: string): void {
		this.#kept[this.#next] = line;
		this.#next = (this.#next + 1) % most;
	}

	lines(): readonly string[] {
		const kept = this.#kept;
		return kept.length < most ? [...kept] : [...kept.slice(this.#next), ...kept.slice(0, this.#next)];
	}
}
