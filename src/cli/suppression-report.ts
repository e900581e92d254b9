import {open, realpath} from 'node:fs/promises';
import {csvLine} from './csv.ts';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';
import {badColumns, type Layout} from './suppression-file.ts';
import {fields} from './table.ts';
import {grouped} from './text.ts';

/** What became of the lines of a file, besides those that were bad. */
export type Counts = {read: number; added: number; listed: number};

export type Imported = {
	readonly name: string;
	/** What --bad named. */
	readonly badFile: string | undefined;
	readonly dryRun: boolean;
	readonly counts: Counts;
	readonly bad: BadLines;
	/** Undefined: the file is empty. */
	readonly layout: Layout | undefined;
};

/** The end of an import. Throws bad data (65) where lines were bad: the others are on the list all the same. */
export function showCounts(session: Session, {name, badFile, dryRun, counts, bad, layout}: Imported): void {
	const badCount = bad.count();
	session.show(
		{...counts, bad: badCount, dry_run: dryRun, columns: layout ? columnsOf(layout) : null, faults: bad.first},
		() =>
			fields([
				['columns', layout ? Object.values(columnsOf(layout)).join(', ') : null],
				['lines read', grouped(counts.read)],
				[dryRun ? 'would be added' : 'added', grouped(counts.added)],
				['already listed', grouped(counts.listed)],
				['bad', grouped(badCount)],
			]),
	);
	if (badCount > 0) {
		const more = badCount - bad.first.length;
		const mend =
			badFile === undefined
				? 'correct them and import the file again, or get them into a file with --bad FILE'
				: `correct ${badFile} and import it`;
		throw new CliError('data', `${grouped(badCount)} of ${grouped(counts.read)} lines were not taken`, mend, [
			...bad.first.map(({line, fault}) => `${name}, line ${line}: ${fault}`),
			...(more > 0 ? [`and ${grouped(more)} more`] : []),
		]);
	}
}

/** Which column of the file was taken for what. */
function columnsOf({columns: {address, reason, createdAt}, header, marks}: Layout): Record<string, string | undefined> {
	const nameOf = (index: number) => header[index - marks];
	return {
		recipient: nameOf(address),
		...(reason !== undefined && {reason: nameOf(reason)}),
		...(createdAt !== undefined && {created_at: nameOf(createdAt)}),
	};
}

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
