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
	const [oldLines, newLines] = [toLines(before), toLines(after)];
	let prefix = 0;
	while (prefix < oldLines.length && prefix < newLines.length && oldLines[prefix] === newLines[prefix]) {
		prefix++;
	}
	let suffix = 0;
	const maxSuffix = Math.min(oldLines.length, newLines.length) - prefix;
	while (suffix < maxSuffix && oldLines.at(-1 - suffix) === newLines.at(-1 - suffix)) {
		suffix++;
	}
	const [oldEnd, newEnd] = [oldLines.length - suffix, newLines.length - suffix];
	if (Math.max(oldEnd, newEnd) - prefix > maxDiffLines) {
		return null;
	}
	return [
		...oldLines.slice(0, prefix).map(text => ({kind: 'same', text}) as const),
		...diffMiddle(oldLines.slice(prefix, oldEnd), newLines.slice(prefix, newEnd)),
		...oldLines.slice(oldEnd).map(text => ({kind: 'same', text}) as const),
	];
}

const toLines = (text: string): string[] => (text === '' ? [] : text.split('\n'));

function diffMiddle(oldLines: readonly string[], newLines: readonly string[]): DiffLine[] {
	const removed = (text: string): DiffLine => ({kind: 'removed', text});
	const added = (text: string): DiffLine => ({kind: 'added', text});
	const width = newLines.length + 1;
	// The number of lines that the remainders of both texts have in common: at most 2,000.
	const common = new Uint16Array((oldLines.length + 1) * width);
	const shared = (i: number, j: number) => common[i * width + j] as number;
	// Long lines that differ only at the end are slow to compare, so each distinct line is replaced by a number.
	const numbers = new Map<string, number>();
	const oldNumbers = Uint32Array.from(oldLines, line => numberOf(line, numbers));
	const newNumbers = Uint32Array.from(newLines, line => numberOf(line, numbers));
	for (let i = oldLines.length - 1; i >= 0; i--) {
		for (let j = newLines.length - 1; j >= 0; j--) {
			common[i * width + j] =
				oldNumbers[i] === newNumbers[j]
					? shared(i + 1, j + 1) + 1
					: Math.max(shared(i + 1, j), shared(i, j + 1));
		}
	}

	const lines: DiffLine[] = [];
	let [i, j] = [0, 0];
	while (i < oldLines.length || j < newLines.length) {
		if (i < oldLines.length && j < newLines.length && oldLines[i] === newLines[j]) {
			lines.push({kind: 'same', text: oldLines[i++] as string});
			j++;
		} else if (i < oldLines.length && (j === newLines.length || shared(i + 1, j) >= shared(i, j + 1))) {
			lines.push(removed(oldLines[i++] as string));
		} else {
			lines.push(added(newLines[j++] as string));
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

const contextLines = 3;

/** Returns the changes with a few lines of context around each. */
export function fold(lines: readonly DiffLine[]): Folded[] {
	const near = new Uint8Array(lines.length);
	for (const [index, {kind}] of lines.entries()) {
		if (kind !== 'same') {
			near.fill(1, Math.max(0, index - contextLines), index + contextLines + 1);
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
	const hunks: Array<{readonly oldLine: number; readonly newLine: number; readonly lines: DiffLine[]}> = [];
	let [oldLine, newLine, isOpen] = [1, 1, false];
	for (const line of fold(all)) {
		if (line.kind !== 'folded') {
			if (!isOpen) {
				hunks.push({oldLine, newLine, lines: []});
			}
			hunks.at(-1)?.lines.push(line);
		}
		isOpen = line.kind !== 'folded';
		const lines = line.kind === 'folded' ? line.count : 1;
		oldLine += line.kind === 'added' ? 0 : lines;
		newLine += line.kind === 'removed' ? 0 : lines;
	}
	const texts = hunks.flatMap(hunk => {
		const toRange = (start: number, excluded: DiffLine['kind']) => {
			const lines = hunk.lines.filter(({kind}) => kind !== excluded).length;
			return `${lines === 0 ? start - 1 : start},${lines}`;
		};
		const header = `@@ -${toRange(hunk.oldLine, 'added')} +${toRange(hunk.newLine, 'removed')} @@`;
		return [header, ...hunk.lines.map(({kind, text}) => `${signs[kind]}${text}`)];
	});
	return texts.length === 0 ? '' : [`--- ${from}`, `+++ ${to}`, ...texts, ''].join('\n');
}

const signs = {same: ' ', removed: '-', added: '+'};
