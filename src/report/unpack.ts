import {gunzipSync, inflateRawSync} from 'node:zlib';

export type Unpacked = {readonly ok: true; readonly bytes: Buffer} | {readonly ok: false; readonly fault: string};

/** A report of ten thousand records has about 6 MB. */
const largest = 10 * 1024 * 1024;

export const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;
export const isZip = (bytes: Buffer): boolean => bytes.length > 4 && bytes.readUInt32LE(0) === 0x04034b50;

/** The file in a gzip or a zip with one file, at most 10 MiB; other bytes as they are. What is an archive again is refused. */
export function unpack(bytes: Buffer): Unpacked {
	if (!isGzip(bytes) && !isZip(bytes)) {
		return bytes.length > largest ? tooLarge : {ok: true, bytes};
	}
	try {
		const unpacked = isGzip(bytes) ? gunzipSync(bytes, {maxOutputLength: largest}) : fileInZip(bytes);
		if (typeof unpacked === 'string') {
			return {ok: false, fault: unpacked};
		}
		return isGzip(unpacked) || isZip(unpacked)
			? {ok: false, fault: 'there is an archive in the archive'}
			: {ok: true, bytes: unpacked};
	} catch (error) {
		const isBomb = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
		return isBomb ? tooLarge : {ok: false, fault: 'the archive is damaged'};
	}
}

const tooLarge: Unpacked = {ok: false, fault: 'unpacked it is larger than 10 MiB'};

const endOfDirectory = 0x06054b50;
const endLength = 22;
const longestComment = 0xffff;
const fileHeader = 0x02014b50;
const isEncrypted = 1;
const methods = {stored: 0, deflated: 8} as const;

/**
 * The only file of a zip (APPNOTE 6.3 §4.3), by its directory; a text says what is wrong. Its name is not looked at.
 *
 * @throws RangeError where an offset leads out of it, and what zlib throws.
 */
function fileInZip(zip: Buffer): Buffer | string {
	let end = zip.length - endLength;
	const last = Math.max(0, end - longestComment);
	while (end >= last && zip.readUInt32LE(end) !== endOfDirectory) {
		end--;
	}
	if (end < last) {
		return 'the archive ends too soon';
	}
	const files = zip.readUInt16LE(end + 10);
	if (files !== 1) {
		return `the archive has ${files} files, a report has one`;
	}
	const at = zip.readUInt32LE(end + 16);
	if (zip.readUInt32LE(at) !== fileHeader || (zip.readUInt16LE(at + 8) & isEncrypted) !== 0) {
		return 'the archive is damaged or encrypted';
	}
	const method = zip.readUInt16LE(at + 10);
	const size = zip.readUInt32LE(at + 20);
	const local = zip.readUInt32LE(at + 42);
	const begin = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
	const packed = zip.subarray(begin, begin + size);
	if (packed.length < size) {
		return 'the archive ends too soon';
	}
	switch (method) {
		case methods.stored:
			return packed.length > largest ? 'unpacked it is larger than 10 MiB' : packed;
		case methods.deflated:
			return inflateRawSync(packed, {maxOutputLength: largest});
		default:
			return `the archive uses method ${method}, which is not read`;
	}
}
