import {findAddresses} from '../addresses.ts';
import type {Detector} from './finding.ts';

const rejected = /not member|reject|loop alert|unsubscribe|spam mail|ignored|deny/i;

/** The list server fml, which refuses posts in the list's name: the recipient is the list. */
export const readFml: Detector = ({field, said}) => {
	const from = findAddresses(field('from'))[0]?.address;
	const isFml = /fml/i.test(field('x-mlserver')) || /\.FML(?:AAB)?@/.test(field('message-id'));
	return isFml &&
		from !== undefined &&
		/-admin@/i.test(from) &&
		rejected.test(`${field('subject')} ${said.slice(0, 500)}`)
		? [{recipient: listOf(from, said), text: `Rejected by the policy of the list: ${said}`}]
		: [];
};

function listOf(admin: string, said: string): string {
	const list = admin.replace(/-admin@/i, '@');
	return findAddresses(said).find(({address}) => list.toLowerCase().endsWith(address.toLowerCase()))?.address ?? list;
}
