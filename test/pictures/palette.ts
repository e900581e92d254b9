import {crc32, deflateSync, inflateSync} from 'node:zlib';

type Picture = {readonly width: number; readonly height: number; readonly pixels: Buffer};

const signature = Buffer.from('89504e470d0a1a0a', 'hex');
const rgb = 3;
/** Squared, over the three channels. */
const tellsApart = 144;

/**
 * A PNG of the browser with at most 256 colours, the rarer ones as their nearest: a third of the bytes, and it looks
 * the same.
 */
export function withPalette(png: Buffer): Buffer {
	const {width, height, pixels} = decoded(png);
	// Colours that nobody tells apart are one.
	const like = (at: number) =>
		(((pixels[at] as number) >> 2) << 12) |
		(((pixels[at + 1] as number) >> 2) << 6) |
		((pixels[at + 2] as number) >> 2);
	const seen = new Map<number, {count: number; readonly colour: Buffer}>();
	for (let at = 0; at < pixels.length; at += rgb) {
		const known = seen.get(like(at));
		if (known) {
			known.count++;
		} else {
			seen.set(like(at), {count: 1, colour: pixels.subarray(at, at + rgb)});
		}
	}
	const palette = chosen([...seen.values()].sort((a, b) => b.count - a.count).map(({colour}) => colour));
	const places = new Map([...seen].map(([key, {colour}]) => [key, nearest(palette, colour)]));
	const rows = Buffer.alloc((width + 1) * height);
	for (let y = 0; y < height; y++) {
		for (let x = 0; x < width; x++) {
			rows[y * (width + 1) + 1 + x] = places.get(like((y * width + x) * rgb)) ?? 0;
		}
	}
	const head = Buffer.alloc(13);
	head.writeUInt32BE(width, 0);
	head.writeUInt32BE(height, 4);
	// 8 bits, each the place of a colour in the palette.
	head.set([8, 3], 8);
	return Buffer.concat([
		signature,
		chunk('IHDR', head),
		chunk('PLTE', Buffer.concat(palette)),
		chunk('IDAT', deflateSync(rows, {level: 9, memLevel: 9})),
		chunk('IEND', Buffer.alloc(0)),
	]);
}

/**
 * The commonest, and only one of those that are alike: the shades of letters must not push out a badge that stands
 * once.
 */
function chosen(byCount: readonly Buffer[]): Buffer[] {
	const palette: Buffer[] = [];
	for (const colour of byCount) {
		if (palette.length < 256 && palette.every(one => distance(one, colour) > tellsApart)) {
			palette.push(colour);
		}
	}
	return palette;
}

function nearest(colours: readonly Buffer[], wanted: Buffer): number {
	const distances = colours.map(colour => distance(colour, wanted));
	return distances.indexOf(Math.min(...distances));
}

function distance(one: Buffer, other: Buffer): number {
	return one.reduce((sum, value, n) => sum + (value - (other[n] as number)) ** 2, 0);
}

function chunk(type: string, data: Buffer): Buffer {
	const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
	const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
	length.writeUInt32BE(data.length);
	sum.writeUInt32BE(crc32(body));
	return Buffer.concat([length, body, sum]);
}

/** What Chromium writes: 8 bits a channel, no interlace; transparency is left out. */
function decoded(png: Buffer): Picture {
	const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
	const size = png[25] === 6 ? 4 : rgb;
	const data: Buffer[] = [];
	for (let at = signature.length; at < png.length; at += 12 + png.readUInt32BE(at)) {
		if (png.toString('latin1', at + 4, at + 8) === 'IDAT') {
			data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
		}
	}
	const raw = inflateSync(Buffer.concat(data));
	const stride = width * size;
	const plain = Buffer.alloc(stride * height);
	for (let y = 0; y < height; y++) {
		const filter = raw[y * (stride + 1)];
		for (let x = 0; x < stride; x++) {
			const at = y * stride + x;
			const left = x < size ? 0 : (plain[at - size] as number);
			const up = y === 0 ? 0 : (plain[at - stride] as number);
			const corner = x < size || y === 0 ? 0 : (plain[at - stride - size] as number);
			const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter ?? 0] ?? 0;
			plain[at] = (raw[y * (stride + 1) + 1 + x] as number) + guess;
		}
	}
	const pixels = Buffer.alloc(width * height * rgb);
	for (let n = 0; n < width * height; n++) {
		plain.copy(pixels, n * rgb, n * size, n * size + rgb);
	}
	return {width, height, pixels};
}

function paeth(left: number, up: number, corner: number): number {
	const guess = left + up - corner;
	const [toLeft, toUp, toCorner] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
	return toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
}
