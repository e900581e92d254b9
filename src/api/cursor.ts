import {createHmac, type KeyObject, timingSafeEqual} from 'node:crypto';

/** What a cursor belongs to: it is refused with any other workspace, route or filters. */
export type CursorScope = {
	readonly workspaceId: string;
	readonly route: string;
	readonly filters: Readonly<Record<string, string>>;
};

/** Positions in lists as opaque, authenticated texts. */
export type Cursors = {
	readonly write: (scope: CursorScope, position: string) => string;
	/** Null: forged, or of another list. */
	readonly read: (scope: CursorScope, cursor: string) => string | null;
};

const macLength = 16;
const longestCursor = 200;

/** The text is base64url of a truncated HMAC-SHA256 and the position; the scope is authenticated with it. */
export function createCursors(key: Uint8Array | KeyObject): Cursors {
	function mac({workspaceId, route, filters}: CursorScope, position: string): Buffer {
		const named = Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1));
		const text = JSON.stringify(['cursor', workspaceId, route, named, position]);
		return createHmac('sha256', key).update(text).digest().subarray(0, macLength);
	}

	return {
		write: (scope, position) => Buffer.concat([mac(scope, position), Buffer.from(position)]).toString('base64url'),
		read(scope, cursor) {
			const bytes = Buffer.from(cursor.slice(0, longestCursor), 'base64url');
			// Several texts decode to the same bytes; only the one that was written counts.
			if (bytes.length <= macLength || bytes.toString('base64url') !== cursor) {
				return null;
			}
			const position = bytes.subarray(macLength).toString();
			return timingSafeEqual(mac(scope, position), bytes.subarray(0, macLength)) ? position : null;
		},
	};
}
