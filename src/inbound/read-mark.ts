import {markRead, type ReadMark} from '../store/inbound.ts';
import type {GroupWrite} from '../store/writer.ts';

/** Marks mails as read that lead to nothing else; false: it was read already. */
export const readMarkWrite: GroupWrite<ReadMark, boolean> = {
	name: 'read_mark',
	rank: 3,
	async apply(trx, marks) {
		const marked = await markRead(trx, marks);
		return marks.map(({id}) => marked.has(id));
	},
};
