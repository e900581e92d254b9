import type {Caller} from '../api/caller.ts';
import type {Refusal} from './submit.ts';

type LogInOptions = {
	/** Whose a key is; null: nobody's now. */
	readonly identify: (key: string) => Promise<Caller | null>;
	/** Counts a wrong key of a client; null: it may go on trying. */
	readonly countFailure: (client: string) => number | null;
};

export type LoggedIn = {readonly ok: true; readonly caller: Caller} | ({readonly ok: false} & Refusal);

const wrongKey: Refusal = {code: 535, text: '5.7.8 The password must be an API key', reason: 'key'};
const tooManyFailures: Refusal = {
	code: 454,
	text: '4.7.0 Too many wrong keys came from this address, try again later',
	reason: 'too_many_failures',
};
const noScope: Refusal = {
	code: 535,
	text: '5.7.1 The key lacks the scope messages:submit: mailctl key create --name NAME --scope messages:submit',
	reason: 'key_scope',
};

/** The user name says nothing: the password is the key. */
export function createLogIn({identify, countFailure}: LogInOptions) {
	return async (password: string, client: string): Promise<LoggedIn> => {
		const caller = await identify(password);
		if (caller === null) {
			return {ok: false, ...(countFailure(client) === null ? wrongKey : tooManyFailures)};
		}
		return caller.scopes.includes('messages:submit') ? {ok: true, caller} : {ok: false, ...noScope};
	};
}
