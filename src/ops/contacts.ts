import {storeTime} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {findContact} from '../store/topics.ts';
import {notFound, operation, Refused} from './operation.ts';

/** The link opens the page of this person. */
type Person = {readonly id: string; readonly workspaceId: string; readonly address: string};

/**
 * Gives out a link to a person's preference page. Who has it may choose for the person, so that the act is recorded.
 */
export const linkPreferences = operation({
	scope: 'contacts:manage',
	role: 'operator',
	name: 'contact preferences-link',
	without: {apply: 'a file has no people'},
	refreshes: false,
	input: Type.Object({id: Type.String()}, {additionalProperties: false, examples: [{}]}),
	async run({trx, tools, workspaceId, mode}, {id}): Promise<Person> {
		const contact = await findContact(trx, workspaceId, id, storeTime(tools.clock.now()));
		if (contact && mode === 'test') {
			const wrong = 'a test key cannot choose for a contact of live mail';
			const api = 'A test key cannot choose for a contact of live mail.';
			throw new Refused('insufficient_scope', {wrong, next: 'use a live key', api});
		}
		return contact ? {id, workspaceId, address: contact.address} : notFound('contact', id);
	},
	audit: 'contact.linked',
	entry: ({id}) => ({target: id}),
});
