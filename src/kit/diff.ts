type DiffLine = {
	/** Whether the line is in both texts, only in the first, or only in the second. */
	readonly kind: 'same' | 'removed' | 'added';
	readonly text: string;
};

/** The maximum number of differing lines. Comparing 2,000 lines with 2,000 takes 8 MB and about ten milliseconds. */
export const maxDiffLines = 2000;

/**
 * Compares two texts line by line, keeping the longest common subsequence. Returns `null` if more than `maxDiffLines`
 * of either text lie between the first difference and the last.
 */
export function diffLines(before: string, after: string): DiffLine[] | null {
	const [old, fresh] = [linesOf(before), linesOf(after)];
	let begin = 0;
	while (begin < old.length && begin < fresh.length && old[begin] === fresh[begin]) {
		begin++;
	}
	let end = 0;
	while (end < Math.min(old.length, fresh.length) - begin && old.at(-1 - end) === fresh.at(-1 - end)) {
		end++;
	}
	if (Math.max(old.length, fresh.length) - begin - end > maxDiffLines) {
		return null;
	}
	return [
		...old.slice(0, begin).map(text => ({kind: 'same', text}) as const),
		...middle(old.slice(begin, old.length - end), fresh.slice(begin, fresh.length - end)),
		...old.slice(old.length - end).map(text => ({kind: 'same', text}) as const),
	];
}

const linesOf = (text: string): string[] => (text === '' ? [] : text.split('\n'));

function middle(old: readonly string[], fresh: readonly string[]): DiffLine[] {
	const removed = (text: string): DiffLine => ({kind: 'removed', text});
	const added = (text: string): DiffLine => ({kind: 'added', text});
	const width = fresh.length + 1;
	// The number of lines that the remainders of both texts have in common: at most 2,000.
	const common = new Uint16Array((old.length + 1) * width);
	const at = (i: number, j: number) => common[i * width + j] as number;
	// Long lines that differ only at the end are slow to compare, so each distinct line is replaced by a number.
	const numbers = new Map<string, number>();
	const oldNumbers = Uint32Array.from(old, line => numberOf(line, numbers));
	const freshNumbers = Uint32Array.from(fresh, line => numberOf(line, numbers));
	for (let i = old.length - 1; i >= 0; i--) {
		for (let j = fresh.length - 1; j >= 0; j--) {
			common[i * width + j] =
				oldNumbers[i] === freshNumbers[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
		}
	}

	const lines: DiffLine[] = [];
	let [i, j] = [0, 0];
	while (i < old.length || j < fresh.length) {
		if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
			lines.push({kind: 'same', text: old[i++] as string});
			j++;
		} else if (i < old.length && (j === fresh.length || at(i + 1, j) >= at(i, j + 1))) {
			lines.push(removed(old[i++] as string));
		} else {
			lines.push(added(fresh[j++] as string));
		}
	}
	return lines;
}

function numberOf(line: string, numbers: Map<string, number>): number {
	const number = numbers.get(line) ?? numbers.size;
	numbers.set(line, number);
	return number;
}

/** A changed or nearby line, or the number of unchanged lines that were left out. */
export type Folded = DiffLine | {readonly kind: 'folded'; readonly count: number};

const around = 3;

/** Returns the changes with a few lines of context around each. */
export function fold(lines: readonly DiffLine[]): Folded[] {
	const near = new Uint8Array(lines.length);
	for (const [index, {kind}] of lines.entries()) {
		if (kind !== 'same') {
			near.fill(1, Math.max(0, index - around), index + around + 1);
		}
	}
	const folded: Folded[] = [];
	for (const [index, line] of lines.entries()) {
		const last = folded.at(-1);
		if (near[index] === 1) {
			folded.push(line);
		} else if (last?.kind === 'folded') {
			folded[folded.length - 1] = {kind: 'folded', count: last.count + 1};
		} else {
			folded.push({kind: 'folded', count: 1});
		}
	}
	return folded;
}

/**
 * Returns the changes in the format of `diff -u`, with the two names. Returns an empty string if there are none, or
 * `null` if they are too long.
 */
export function unifiedDiff(
	[from, to]: readonly [from: string, to: string],
	before: string,
	after: string,
): string | null {
	const all = diffLines(before, after);
	if (all === null) {
		return null;
	}
	const hunks: Array<{readonly old: number; readonly fresh: number; readonly lines: DiffLine[]}> = [];
	let [old, fresh, isOpen] = [1, 1, false];
	for (const line of fold(all)) {
		if (line.kind !== 'folded') {
			if (!isOpen) {
				hunks.push({old, fresh, lines: []});
			}
			hunks.at(-1)?.lines.push(line);
		}
		isOpen = line.kind !== 'folded';
		const lines = line.kind === 'folded' ? line.count : 1;
		old += line.kind === 'added' ? 0 : lines;
		fresh += line.kind === 'removed' ? 0 : lines;
	}
	const texts = hunks.flatMap(hunk => {
		const place = (at: number, other: DiffLine['kind']) => {
			const lines = hunk.lines.filter(({kind}) => kind !== other).length;
			return `${lines === 0 ? at - 1 : at},${lines}`;
		};
		const head = `@@ -${place(hunk.old, 'added')} +${place(hunk.fresh, 'removed')} @@`;
		return [head, ...hunk.lines.map(({kind, text}) => `${signs[kind]}${text}`)];
	});
	return texts.length === 0 ? '' : [`--- ${from}`, `+++ ${to}`, ...texts, ''].join('\n');
}

const signs = {same: ' ', removed: '-', added: '+'};
