import type {GroupWrite} from '../store/engine/writer.ts';
import {type InboundEnd, markRead} from '../store/inbound/inbound.ts';

/** Marks mails as read of which nothing comes. */
export const readMarkWrite: GroupWrite<InboundEnd, void> = {
	name: 'read_mark',
	rank: 3,
	async apply(trx, ends) {
		await markRead(trx, ends);
		return ends.map(() => undefined);
	},
};
