import {storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {type OperationContext, operation, Refused} from '../operation.ts';
import {makeDue} from './store.ts';

/** Marks certificates as due, so that the daemon orders them immediately. Returns their names. */
export const renewCertificates = operation({
	name: 'certificate renew',
	role: 'admin',
	everywhere: true,
	without: {
		api: 'certificates renew automatically; only a failed renewal needs an operator',
		dashboard: 'certificates renew automatically; only a failed renewal needs an operator',
		apply: 'a file describes state, not actions',
	},
	input: Type.Object({
		name: Type.Optional(Type.String({description: 'The host name of the certificate. Default: all.'})),
	}),
	async run({trx, tools}: OperationContext<string | null>, {name = null}): Promise<readonly string[]> {
		const names = await makeDue(trx, name, storeTime(tools.clock.now()));
		if (names.length > 0) {
			return names;
		}
		const wrong = name === null ? 'no certificates are in use' : `no certificate for ${name} is in use`;
		const next = name === null ? 'set MAILCTL_ACME=true and start the daemon' : 'see mailctl certificate list';
		throw new Refused('not_found', {wrong, next});
	},
	audit: 'certificate.renewal_requested',
	entry: (names, {name = null}) => ({target: name, detail: {names: names.length}}),
});
