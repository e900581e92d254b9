/** The word that is closest to `text` by edits (Levenshtein), if a third of it or less differs. */
export function nearest(text: string, words: readonly string[]): string | undefined {
	let best: string | undefined;
	let fewest = Math.floor(text.length / 3) + 1;
	for (const word of words) {
		const edits = distance(text, word);
		if (edits < fewest) {
			best = word;
			fewest = edits;
		}
	}

	return best;
}

function distance(left: string, right: string): number {
	let row = Array.from({length: right.length + 1}, (_, index) => index);
	for (const [i, letter] of [...left].entries()) {
		const next = [i + 1];
		for (let j = 0; j < right.length; j++) {
			const replaced = (row[j] ?? 0) + (letter === right[j] ? 0 : 1);
			next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
		}

		row = next;
	}

	return row[right.length] ?? 0;
}
