import {crc32, gunzipSync, inflateRawSync} from 'node:zlib';

export type Unpacked = {readonly ok: true; readonly bytes: Buffer} | {readonly ok: false; readonly problem: string};

/** A report with ten thousand records has about 6 MB. */
const maxBytes = 10 * 1024 * 1024;

export const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;
export const isZip = (bytes: Buffer): boolean => bytes.length > 4 && bytes.readUInt32LE(0) === 0x04034b50;

/** Returns the only file of a gzip or zip (besides folders), at most 10 MiB. Returns other bytes unchanged. */
export function unpack(bytes: Buffer): Unpacked {
	if (!isGzip(bytes) && !isZip(bytes)) {
		return bytes.length > maxBytes ? tooLarge : {ok: true, bytes};
	}
	try {
		const unpacked = isGzip(bytes) ? fileInGzip(bytes) : fileInZip(bytes);
		if (typeof unpacked === 'string') {
			return {ok: false, problem: unpacked};
		}
		return isGzip(unpacked) || isZip(unpacked)
			? {ok: false, problem: 'the archive contains another archive'}
			: {ok: true, bytes: unpacked};
	} catch (error) {
		const isBomb = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
		return isBomb ? tooLarge : {ok: false, problem: damaged};
	}
}

const damaged = 'the archive is damaged';
const tooLarge: Unpacked = {ok: false, problem: 'its content is larger than 10 MiB'};

/**
 * Decompresses a gzip. Node rejects one followed by anything but NULs or another gzip, and Mimecast appends a CRLF to
 * every report. So this finds the end by the trailer, which must be computed from the content (RFC 1952 §2.3.1).
 */
function fileInGzip(gzip: Buffer): Buffer | string {
	const begin = gzipHeaderLength(gzip);
	const file = inflateRawSync(gzip.subarray(begin), {maxOutputLength: maxBytes});
	const trailer = Buffer.alloc(8);
	trailer.writeUInt32LE(crc32(file));
	trailer.writeUInt32LE(file.length, 4);
	const end = gzip.indexOf(trailer, begin);
	if (end === -1) {
		return damaged;
	}
	return isGzip(gzip.subarray(end + trailer.length)) ? gunzipSync(gzip, {maxOutputLength: maxBytes}) : file;
}

const gzipFlags = {headerCrc: 2, extra: 4, name: 8, comment: 16} as const;

/** Returns the octets before the deflated data (RFC 1952 §2.3), too few to inflate if a name never ends. */
function gzipHeaderLength(gzip: Buffer): number {
	const flags = gzip.readUInt8(3);
	let length = 10;
	if (flags & gzipFlags.extra) {
		length += 2 + gzip.readUInt16LE(length);
	}
	for (const flag of [gzipFlags.name, gzipFlags.comment]) {
		length = flags & flag ? gzip.indexOf(0, length) + 1 : length;
	}
	return flags & gzipFlags.headerCrc ? length + 2 : length;
}

const endOfDirectory = 0x06054b50;
const endLength = 22;
const maxCommentLength = 0xffff;
const fileHeader = 0x02014b50;
const fileHeaderLength = 46;
/** Names of folders, and of entries that macOS adds beside each file. */
const notFiles = /[/\\]$|^__MACOSX[/\\]/;
const isEncrypted = 1;
const methods = {stored: 0, deflated: 8} as const;

/**
 * Returns the only file of a zip (APPNOTE 6.3 §4.3), or the problem as a text. Names matter only to recognize
 * folders.
 *
 * @throws RangeError if an offset is outside of the archive, and zlib's errors
 */
function fileInZip(zip: Buffer): Buffer | string {
	let end = zip.length - endLength;
	const searchStart = Math.max(0, end - maxCommentLength);
	while (end >= searchStart && zip.readUInt32LE(end) !== endOfDirectory) {
		end--;
	}
	if (end < searchStart) {
		return 'the archive is truncated';
	}
	const headers = readFileHeaders(zip, {at: zip.readUInt32LE(end + 16), entries: zip.readUInt16LE(end + 10)});
	const [header] = headers;
	if (header === undefined || headers.length > 1) {
		return `the archive has ${headers.length} files instead of one`;
	}
	if (zip.readUInt32LE(header) !== fileHeader || (zip.readUInt16LE(header + 8) & isEncrypted) !== 0) {
		return 'the archive is damaged or encrypted';
	}
	const method = zip.readUInt16LE(header + 10);
	const size = zip.readUInt32LE(header + 20);
	const localHeader = zip.readUInt32LE(header + 42);
	const begin = localHeader + 30 + zip.readUInt16LE(localHeader + 26) + zip.readUInt16LE(localHeader + 28);
	const packed = zip.subarray(begin, begin + size);
	if (packed.length < size) {
		return 'the archive is truncated';
	}
	switch (method) {
		case methods.stored:
			return packed.length > maxBytes ? 'its content is larger than 10 MiB' : packed;
		case methods.deflated:
			return inflateRawSync(packed, {maxOutputLength: maxBytes});
		default:
			return `the archive uses compression method ${method}, which is not supported`;
	}
}

/** Returns the offsets of the files' headers in the directory, without those of folders. */
function readFileHeaders(zip: Buffer, directory: {readonly at: number; readonly entries: number}): number[] {
	const offsets: number[] = [];
	let {at} = directory;
	for (let entry = 0; entry < directory.entries; entry++) {
		const nameEnd = at + fileHeaderLength + zip.readUInt16LE(at + 28);
		if (!notFiles.test(zip.toString('latin1', at + fileHeaderLength, nameEnd))) {
			offsets.push(at);
		}
		at = nameEnd + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
	}
	return offsets;
}
