import {createSecureContext} from 'node:tls';
import {readSettingFile} from '../kit/regular-file.ts';
import {blocklistsProblems} from './blocklists-file.ts';
import {bounceRulesProblems} from './bounce-rules.ts';
import {implicitTlsPort, isLoopback, isMailable, publicHost} from './derive.ts';
import {destinationsProblems} from './destinations-file.ts';
import {type SettingKey, type TableValues, table} from './table.ts';

/** A rule over several settings; asked only when each of them could be read. */
type Rule = {
	readonly needs: readonly SettingKey[];
	readonly problem: (values: TableValues) => string | readonly string[] | undefined;
	/**
	 * Of no matter to a command beside the daemon, which goes on with what it read: an operator must not be locked out.
	 */
	readonly daemonOnly?: true;
};

const certificates = [
	['inboundTlsCert', 'inboundTlsKey'],
	['submissionTlsCert', 'submissionTlsKey'],
] as const;
const files = ['webhookCaFile', 'caFile', 'acmeCaFile', 'secretKeyFile', ...certificates.flat()] as const;

const rules: readonly Rule[] = [
	{
		needs: ['databaseUrl', 'secretKey', 'secretKeyFile'],
		problem({databaseUrl, secretKey, secretKeyFile}) {
			if (secretKey && secretKeyFile) {
				return 'MAILCTL_SECRET_KEY and MAILCTL_SECRET_KEY_FILE are both set: keep one of them';
			}

			if (databaseUrl && !secretKey && !secretKeyFile) {
				return 'MAILCTL_DATABASE_URL needs MAILCTL_SECRET_KEY or MAILCTL_SECRET_KEY_FILE, the same on each node: openssl rand -base64 32 makes one';
			}
		},
	},
	{
		needs: ['oidcIssuer', 'oidcClientId'],
		problem({oidcIssuer, oidcClientId}) {
			if ((oidcIssuer === null) !== (oidcClientId === null)) {
				return 'MAILCTL_OIDC_ISSUER and MAILCTL_OIDC_CLIENT_ID are not both set: set both, or neither';
			}
		},
	},
	{
		needs: ['httpsListen', 'acme'],
		problem({httpsListen, acme}) {
			if (httpsListen !== null && !acme) {
				return 'MAILCTL_HTTPS_LISTEN needs certificates: set MAILCTL_ACME=true, or let a proxy serve https (docs/guide/proxy.md)';
			}
		},
	},
	{
		needs: ['httpRedirectListen', 'publicUrl'],
		problem({httpRedirectListen, publicUrl}) {
			if (httpRedirectListen !== null && !publicUrl?.startsWith('https:')) {
				return 'MAILCTL_HTTP_REDIRECT_LISTEN redirects to MAILCTL_PUBLIC_URL, which is not https: set it to the https address at which recipients reach this server';
			}
		},
	},
	{
		needs: ['httpListen', 'httpsListen', 'httpRedirectListen'],
		problem({httpListen, httpsListen, httpRedirectListen}) {
			const places = Object.entries({httpListen, httpsListen, httpRedirectListen})
				.filter(([, at]) => at?.port)
				.map(([key, at]) => ({name: table[key as 'httpListen'].name, at: `${at?.host}:${at?.port}`}));
			const [again] = twice(places.map(({at}) => at));
			const names = places.filter(({at}) => at === again).map(({name}) => name);
			return again && `${names.join(' and ')} are the same address, ${again}: give each its own`;
		},
	},
	{
		needs: ['delivery', 'relays'],
		problem({delivery, relays}) {
			if (delivery === 'relay' && relays.length === 0) {
				return 'MAILCTL_DELIVERY="relay" needs MAILCTL_RELAY_URL: set it to the smarthost';
			}
		},
	},
	{
		needs: ['delivery', 'returnPathDomain', 'inboundListen', 'publicUrl', 'httpListen', 'hostname'],
		problem(values) {
			const {returnPathDomain, hostname} = values;
			const linkHost = publicHost(values);
			const [host, name] = returnPathDomain
				? [returnPathDomain, 'MAILCTL_RETURN_PATH_DOMAIN']
				: values.inboundListen
					? [linkHost, 'the host of MAILCTL_PUBLIC_URL']
					: [hostname, 'MAILCTL_HOSTNAME'];
			if (values.delivery === 'mx' && !isMailable(host)) {
				return `MAILCTL_DELIVERY="mx" needs a return-path domain that others can mail to, and ${name} is ${host}: set MAILCTL_RETURN_PATH_DOMAIN`;
			}
		},
	},
	{
		needs: ['dane', 'dnsServers'],
		problem({dane, dnsServers}) {
			if (dane && dnsServers.length === 0) {
				return 'MAILCTL_DANE="true" needs MAILCTL_DNS_SERVERS: name a resolver that validates DNSSEC';
			}
		},
	},
	{
		needs: ['cfbl', 'inboundListen', 'bounceMailbox', 'feedbackAddress'],
		problem({cfbl, inboundListen, bounceMailbox, feedbackAddress}) {
			if (cfbl && !inboundListen && !bounceMailbox && !feedbackAddress) {
				return 'MAILCTL_CFBL="true" asks for reports that nobody would read: set MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX, or in MAILCTL_FEEDBACK_ADDRESS an address that is read';
			}
		},
		daemonOnly: true,
	},
	...files.map((key): Rule => ({needs: [key], problem: values => fileProblem(table[key].name, values[key])})),
	{
		needs: ['acmeCaFile'],
		problem({acmeCaFile: file}) {
			// Node trusts no other CA where a file has none, and says nothing.
			if (file && !fileProblem('', file) && !readSettingFile(file).includes('-----BEGIN CERTIFICATE-----')) {
				return `MAILCTL_ACME_CA_FILE="${file}" has no certificate: name a PEM file, which has -----BEGIN CERTIFICATE-----`;
			}
		},
	},
	...certificates.map(
		([cert, key]): Rule => ({needs: [cert, key], problem: values => tlsPairProblem(values, cert, key)}),
	),
	{
		needs: ['acme', 'hostname'],
		problem({acme, hostname}) {
			if (acme && !(hostname.includes('.') && isMailable(hostname))) {
				return `MAILCTL_ACME="true" needs a name that a CA can look up, and MAILCTL_HOSTNAME is ${hostname}: set it to a full name such as mail.example.com`;
			}
		},
	},
	{
		needs: ['submissionListen', 'submissionTlsCert', 'acme'],
		problem({submissionListen, submissionTlsCert, acme}) {
			const open = submissionListen.find(({host, port}) => port === implicitTlsPort || !isLoopback(host));
			if (open && submissionTlsCert === null && !acme) {
				return `MAILCTL_SUBMISSION_LISTEN names ${open.host}:${open.port}, which needs TLS: set MAILCTL_SUBMISSION_TLS_CERT and MAILCTL_SUBMISSION_TLS_KEY, or MAILCTL_ACME=true, or listen on loopback such as 127.0.0.1:2525`;
			}
		},
	},
	{needs: ['destinationsFile', 'sourcePools', 'relays'], problem: destinationsProblems, daemonOnly: true},
	{needs: ['bounceRulesFile'], problem: bounceRulesProblems, daemonOnly: true},
	{needs: ['blocklistsFile'], problem: blocklistsProblems, daemonOnly: true},
	{needs: ['sourceAddresses', 'sourcePools'], problem: poolProblems},
	{needs: ['sourceAddresses', 'warmUps'], problem: warmUpProblems},
];

/** What is wrong between settings; those that could not be read are missing and not asked about again. */
export function crossProblems(values: Partial<TableValues>, beside: boolean): string[] {
	return rules.flatMap(rule => {
		if (beside && rule.daemonOnly) {
			return [];
		}
		const known = rule.needs.every(key => Object.hasOwn(values, key));
		return (known && rule.problem(values as TableValues)) || [];
	});
}

/** What is valid for the name in EHLO and return paths but probably a mistake; null: nothing. */
export function hostnameRemark({delivery, hostname}: Pick<TableValues, 'delivery' | 'hostname'>): string | null {
	return delivery === 'capture' || hostname.includes('.')
		? null
		: `MAILCTL_HOSTNAME is ${hostname}, which others cannot look up: set it to a full name such as mail.example.com`;
}

const asGiven = (values: readonly string[]): string => [...new Set(values)].join(', ');

function twice(names: readonly string[]): string[] {
	return names.filter((name, index) => names.indexOf(name) !== index);
}

function poolProblems({sourceAddresses, sourcePools}: TableValues): string[] {
	const foreign = sourcePools
		.flatMap(({addresses}) => addresses)
		.filter(address => sourceAddresses.every(({ip}) => ip !== address));
	const again = twice(sourcePools.map(({name}) => name));
	return [
		...(foreign.length > 0
			? [`MAILCTL_SOURCE_POOLS names ${asGiven(foreign)}: add it to MAILCTL_SOURCE_ADDRESSES, spelled the same`]
			: []),
		...(again.length > 0 ? [`MAILCTL_SOURCE_POOLS names ${asGiven(again)} twice: join the addresses with +`] : []),
	];
}

function warmUpProblems({sourceAddresses, warmUps}: TableValues): string[] {
	const addresses = warmUps.map(({address}) => address);
	const foreign = addresses.filter(address => sourceAddresses.every(({ip}) => ip !== address));
	const again = twice(addresses);
	return [
		...(foreign.length > 0
			? [`MAILCTL_WARM_UP names ${asGiven(foreign)}: add it to MAILCTL_SOURCE_ADDRESSES, spelled the same`]
			: []),
		...(again.length > 0 ? [`MAILCTL_WARM_UP names ${asGiven(again)} twice: keep one of them`] : []),
	];
}

function fileProblem(name: string, path: string | null): string | undefined {
	try {
		if (path !== null) {
			readSettingFile(path);
		}
	} catch (error) {
		return `${name}="${path}" cannot be read: ${(error as Error).message}: name a file that the user of the daemon may read`;
	}
}

function tlsPairProblem(
	values: TableValues,
	certKey: (typeof certificates)[number][0],
	keyKey: (typeof certificates)[number][1],
): string | undefined {
	const [cert, key] = [values[certKey], values[keyKey]];
	const names = `${table[certKey].name} and ${table[keyKey].name}`;
	if (Boolean(cert) !== Boolean(key)) {
		return `${names} belong together: set both or neither`;
	}

	if (!cert || !key || fileProblem('', cert) || fileProblem('', key)) {
		return undefined;
	}

	try {
		createSecureContext({cert: readSettingFile(cert), key: readSettingFile(key)});
	} catch (error) {
		return `${names} do not make a TLS server: ${(error as Error).message}`;
	}
}
