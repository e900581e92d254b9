import {idBytes, idFromBytes} from '../mail/ids.ts';
import type {Role} from '../mail/message.ts';

/** What a token of a link says about the mail it stood in; enough to act after the message is gone. */
export type Claims = {
	readonly workspaceId: string;
	readonly messageId: string;
	/** The topic the message was tagged with. */
	readonly topicId: string | null;
	readonly role: Role;
	/** The recipient, as the caller spelled it. */
	readonly address: string;
	/** Milliseconds since the epoch, kept in whole seconds. */
	readonly expiresAt: number;
};

const noTopic = Buffer.alloc(16);
const roles: readonly Role[] = ['to', 'cc'];
const addressAt = 53;

/** Expiry (u32 seconds) ‖ workspace ‖ message ‖ topic or zeros (16 B each) ‖ role (1 B) ‖ address ‖ [NUL ‖ URL]. */
export function writeClaims(claims: Claims, url?: string): Buffer {
	const fixed = Buffer.allocUnsafe(addressAt);
	fixed.writeUInt32BE(Math.floor(claims.expiresAt / 1000));
	idBytes(claims.workspaceId).copy(fixed, 4);
	idBytes(claims.messageId).copy(fixed, 20);
	(claims.topicId === null ? noTopic : idBytes(claims.topicId)).copy(fixed, 36);
	fixed[52] = roles.indexOf(claims.role);
	return Buffer.concat([fixed, Buffer.from(url === undefined ? claims.address : `${claims.address}\0${url}`)]);
}

/** Reads what `writeClaims` wrote. Call it only with bytes after their seal was checked. */
export function readClaims(content: Buffer): {claims: Claims; url: string} {
	const [address = '', url = ''] = content.toString('utf8', addressAt).split('\0');
	const topic = content.subarray(36, 52);
	return {
		claims: {
			workspaceId: idFromBytes('ws', content.subarray(4, 20)),
			messageId: idFromBytes('msg', content.subarray(20, 36)),
			topicId: topic.equals(noTopic) ? null : idFromBytes('usg', topic),
			role: roles[content[52] ?? 0] ?? 'to',
			address,
			expiresAt: content.readUInt32BE() * 1000,
		},
		url,
	};
}
