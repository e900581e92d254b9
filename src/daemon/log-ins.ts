import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import type {Tools} from '../mail/operator.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {createAttempts} from '../users/attempts.ts';
import {createLogIn} from '../users/log-in.ts';
import {createOidc} from '../users/oidc.ts';
import {createPasskeys} from '../users/passkeys.ts';
import {createSessions} from '../users/sessions.ts';

type LogInsOptions = {
	readonly settings: Settings;
	readonly store: Store;
	readonly vault: Vault;
	readonly tools: Tools;
};

/** The ways into the dashboard, which count failures together, and the sessions that they lead to. */
export function createLogIns({settings, store, vault, tools}: LogInsOptions) {
	const {clock, newId} = tools;
	const {oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret} = settings;
	const attempts = createAttempts(clock);
	return {
		sessions: createSessions({store, ...tools}),
		logIn: createLogIn({store, vault, clock, attempts}),
		passkeys: createPasskeys({store, vault, clock, newId, attempts}),
		oidc:
			issuer === null || clientId === null
				? null
				: createOidc({issuer, clientId, clientSecret, ca: extraCa(settings), store, vault, clock}),
	};
}
