import {Readable} from 'node:stream';
import type {Knex} from 'knex';
import {apiTime} from '../kit/time.ts';
import type {Mode} from '../mail/message.ts';
import type {SuppressionReason} from '../mail/suppression.ts';
import {listSuppressions, type Suppression} from '../store/suppressions.ts';
import {csvLine} from './csv.ts';
import {exportedColumns} from './suppression-file.ts';

const rowsAtOnce = 1000;

type ExportFilter = {
	readonly workspaceId: string;
	/** Entries of the other mode are left out: an import makes entries of one. */
	readonly mode: Mode;
	readonly reason: SuppressionReason | undefined;
};

/** By keyset, so that a million entries take no more memory than a thousand, and no long transaction. */
export async function* exportPages(
	reader: Knex,
	{workspaceId, mode, reason}: ExportFilter,
): AsyncGenerator<readonly Suppression[]> {
	let after: string | null = null;
	do {
		const page: Suppression[] = await listSuppressions(reader, {workspaceId, reason, after, limit: rowsAtOnce});
		const own = page.filter(entry => entry.mode === mode);
		if (own.length > 0) {
			yield own;
		}
		after = page.length < rowsAtOnce ? null : (page.at(-1)?.id ?? null);
	} while (after !== null);
}

/** The first line of an exported file. */
export const exportedHeader = csvLine(exportedColumns);

export function exportedLine({id, address, reason, source, created_at}: Suppression): string {
	return csvLine([id, address, reason, source, apiTime(created_at)]);
}

/** The file as it is read. Its first page is read before the answer begins, which can still say that the store is gone. */
export async function exportedFile(reader: Knex, filter: ExportFilter): Promise<Readable> {
	const pages = exportPages(reader, filter);
	const first = await pages.next();
	return Readable.from(bytesOf(first.done ? [] : first.value, pages), {objectMode: false});
}

async function* bytesOf(
	first: readonly Suppression[],
	rest: AsyncIterable<readonly Suppression[]>,
): AsyncGenerator<Buffer> {
	yield Buffer.from(exportedHeader + first.map(exportedLine).join(''));
	for await (const page of rest) {
		yield Buffer.from(page.map(exportedLine).join(''));
	}
}
