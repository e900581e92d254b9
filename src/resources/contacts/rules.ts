import {storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {notFound, operation, Refused} from '../operation.ts';
import {findContact} from '../topics/store.ts';

/** The person whose preference page the link opens. */
type Person = {readonly id: string; readonly workspaceId: string; readonly address: string};

/** Creates a link to a person's preference page. Anyone who has it can change their preferences, so this is audited. */
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
			const wrong = 'a test key cannot change the preferences of a live contact';
			const api = 'A test key cannot change the preferences of a live contact.';
			throw new Refused('insufficient_scope', {wrong, next: 'use a live key', api});
		}
		return contact ? {id, workspaceId, address: contact.address} : notFound('contact', id);
	},
	audit: 'contact.linked',
	entry: ({id}) => ({target: id}),
});
