import {createSecureContext, rootCertificates} from 'node:tls';
import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {createFetchPolicy} from '../mta-sts/fetch-policy.ts';
import {createMtaSts, type MtaStsPolicies, type PolicyFailure} from '../mta-sts/mta-sts.ts';
import type {Resolver} from '../net/dns.ts';
import {countTls, findPolicy, savePolicy} from '../store/domains.ts';
import type {Store} from '../store/store.ts';

export type PoliciesOptions = {
	readonly settings: Settings;
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly resolver: Resolver;
	readonly version: string;
	readonly clock: Clock;
	readonly onPolicyFailure: (failure: PolicyFailure) => void;
	readonly onStoreError: (error: unknown) => void;
};

const fetchLimitMs = 60_000;

/** The MTA-STS policies as the settings say, kept in the store; null: they are not obeyed. */
export function createPolicies(options: PoliciesOptions): MtaStsPolicies | null {
	const {settings, store, resolver, clock} = options;
	if (!settings.mtaSts || settings.delivery === 'capture') {
		return null;
	}

	const ca = extraCa(settings);
	const write = (work: Parameters<Store['writer']['transaction']>[0]) =>
		store.writer.transaction(work).catch(options.onStoreError);

	return createMtaSts({
		resolver,
		fetch: createFetchPolicy({
			resolver,
			port: settings.mtaStsPort,
			allowPrivate: settings.allowPrivateMx,
			secureContext: createSecureContext({
				minVersion: 'TLSv1.2',
				...(ca === null ? {} : {ca: [...rootCertificates, ca]}),
			}),
			userAgent: `mailctl/${options.version}`,
			limitMs: fetchLimitMs,
		}),
		read: domain => findPolicy(store.reader, domain),
		// Without it the policy holds for this run of the daemon.
		save: async policy => void (await write(trx => savePolicy(trx, policy))),
		onFailure(failure) {
			const {domain, failure: result} = failure;
			const day = storeTime(clock.now()).slice(0, 10);
			void write(trx => countTls(trx, [{day, domain, policy: 'sts', host: `mta-sts.${domain}`, result}]));
			options.onPolicyFailure(failure);
		},
		clock,
	});
}
