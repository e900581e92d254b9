import {open, realpath} from 'node:fs/promises';
import {csvLine} from './csv-writer.ts';
import {CliError} from './fault.ts';
import {badColumns, type Layout} from './suppression-file.ts';

export type Fault = {readonly line: number; readonly fault: string};

/** The lines of an import that were not taken: how many, what was wrong with the first, all of them in a file. */
export type BadLines = {
	readonly count: () => number;
	readonly first: readonly Fault[];
	/** `cells` as they were in the file, without apostrophes of ours. */
	readonly add: (line: number, fault: string, cells: readonly string[], layout: Layout | undefined) => Promise<void>;
	readonly close: () => Promise<void>;
};

const mostRemembered = 20;

/** `file` gets the lines with their numbers and faults before their own cells, so that it can be corrected and imported. */
export async function openBadLines(file: string | undefined, input: string): Promise<BadLines> {
	if (file !== undefined && input !== '-' && (await realpath(file).catch(() => null)) === (await realpath(input))) {
		throw new CliError('usage', '--bad names the file that is imported', 'name another file');
	}
	const handle = file === undefined ? undefined : await open(file, 'w', 0o600);
	const first: Fault[] = [];
	let count = 0;
	return {
		count: () => count,
		first,
		async add(line, fault, cells, layout) {
			if (count === 0) {
				await handle?.write(csvLine([...badColumns, ...(layout?.header ?? ['recipient'])]));
			}
			count++;
			if (first.length < mostRemembered) {
				first.push({line, fault});
			}
			await handle?.write(csvLine([line, fault, ...cells]));
		},
		close: async () => await handle?.close(),
	};
}
