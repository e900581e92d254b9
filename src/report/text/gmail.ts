import {findAddresses} from '../addresses.ts';
import type {Detector} from './finding.ts';
import {readListed} from './listed.ts';

const old = /^.{0,40}Delivery to the following recipients? (?:failed permanently|has been delayed)[^\n]{0,40}$/im;
const today =
	/^\**[ \t]*(?:Your message (?:wasn't|wasn’t|was not|couldn't be|couldn’t be) delivered to|There was a (?:temporary )?problem (?:while )?delivering your message to)\s{1,4}/im;
const said550 =
	/(?:The error that the other server returned was|The response(?: from the remote server)? was):?\s{1,4}/i;

/** Gmail without a delivery status: `Delivery to the following recipient failed permanently:`, and the notices of today. */
export const readGmail: Detector = ({said}) => {
	const listed = readListed(said, {after: old});
	if (listed.length > 0) {
		return listed;
	}
	const sentence = today.exec(said);
	if (sentence === null) {
		return [];
	}
	const rest = said.slice(sentence.index + sentence[0].length);
	const found = findAddresses(rest.slice(0, 400))[0];
	// Others begin with the same words and name the address elsewhere.
	const recipient = found !== undefined && found.start < 6 ? found.address : undefined;
	const reply = said550.exec(rest);
	return recipient === undefined
		? []
		: [{recipient, text: reply === null ? rest : rest.slice(reply.index + reply[0].length)}];
};
