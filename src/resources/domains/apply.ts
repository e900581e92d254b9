import {generateSigningKeys} from '../../compose/dkim.ts';
import {parseDomain} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {declaration} from '../apply/declaration.ts';
import {field, optionalOrNull} from '../fields.ts';
import {addDomain, removeDomain, returnPathProblem} from './domains.ts';
import {changeLinkHost, linkHostProblem} from './link-host.ts';
import {findDomain, listDomains} from './store.ts';

const name = field(Type.String({format: 'domain'}), {normalize: parseDomain});
const host = field(optionalOrNull(Type.String({format: 'domain'})), {normalize: parseDomain});

export const declaredDomains = declaration({
	kind: 'domain',
	section: 'domains',
	schema: Type.Object({name, return_path_domain: host, link_host: host}, {additionalProperties: false}),
	key: ['name'],
	fixed: ['return_path_domain'],
	omitted: ['link_host'],
	check({name, return_path_domain = null, link_host = null}, refuse) {
		refuse('return_path_domain', returnPathProblem(name, return_path_domain));
		refuse('link_host', linkHostProblem({name, return_path_domain}, link_host));
	},
	async read(reader, workspaceId) {
		const domains = await listDomains(reader, workspaceId);
		return domains.map(({name, return_path_domain, link_host}) => ({name, return_path_domain, link_host}));
	},
	steps: {
		async add({write, tools, vault, ownHosts, workspaceId}, {declared: {name, return_path_domain, link_host}}) {
			const links = link_host ? {host: link_host, ownHosts} : null;
			const keys = await generateSigningKeys();
			const input = {workspaceId, name, returnPathDomain: return_path_domain ?? null, links, keys};
			return (await write(trx => addDomain(trx, tools, vault, input)))?.domain;
		},
		async change({reader, write, tools, ownHosts, workspaceId}, {declared: {name, link_host = null}}) {
			const row = await findDomain(reader, workspaceId, name);
			return row && (await write(trx => changeLinkHost(trx, tools, row, link_host, ownHosts)));
		},
		async remove({reader, write, tools, workspaceId}, {known: {name}}) {
			const row = await findDomain(reader, workspaceId, name);
			return row && (await write(trx => removeDomain(trx, tools, row))) === undefined ? {} : undefined;
		},
	},
});
