import {closeSync, openSync, readSync, statSync} from 'node:fs';

const headerLength = 100;

/**
 * Throws what SQLite would where a database file ends before its header says so: SQLite itself notices only when it needs
 * a page that is lost. A write-ahead log may hold what the file lacks: then nothing is said.
 */
export function refuseTruncated(file: string): void {
	const size = sizeOf(file);
	if (size < headerLength || sizeOf(`${file}-wal`) > 0) {
		return;
	}
	// https://www.sqlite.org/fileformat2.html#the_database_header
	const header = readHeader(file);
	const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
	const pages = header.readUInt32BE(28);
	const isCurrent = header.readUInt32BE(24) === header.readUInt32BE(92);
	if (header.toString('latin1', 0, 15) === 'SQLite format 3' && isCurrent && size < pageSize * pages) {
		const error = new Error('SQLITE_CORRUPT: database disk image is malformed');
		throw Object.assign(error, {code: 'SQLITE_CORRUPT'});
	}
}

function sizeOf(file: string): number {
	return statSync(file, {throwIfNoEntry: false})?.size ?? 0;
}

function readHeader(file: string): Buffer {
	const header = Buffer.alloc(headerLength);
	const handle = openSync(file, 'r');
	try {
		readSync(handle, header, 0, headerLength, 0);
	} finally {
		closeSync(handle);
	}
	return header;
}
