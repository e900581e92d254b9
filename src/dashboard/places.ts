/** The pages in the navigation. Each name is also the path. */
export const places = [
	'messages',
	'overview',
	'queue',
	'deliverability',
	'domains',
	'templates',
	'layouts',
	'suppressions',
	'topics',
	'contacts',
	'webhooks',
	'smarthosts',
	'returned',
	'received',
	'keys',
	'users',
	'workspaces',
	'audit',
	'alerts',
	'health',
] as const;

export type Place = (typeof places)[number];

/** The keys that open a page after `g`. */
export const placeKeys: Readonly<Partial<Record<Place, string>>> = {
	messages: 'm',
	overview: 'o',
	queue: 'q',
	domains: 'd',
	templates: 't',
	suppressions: 's',
	webhooks: 'w',
	health: 'h',
};

/** The groups of the navigation. */
export const groups: ReadonlyArray<{readonly title: string; readonly places: readonly Place[]}> = [
	{title: 'Mail', places: ['messages', 'overview', 'queue', 'deliverability', 'returned', 'received']},
	{title: 'Sending', places: ['domains', 'templates', 'layouts', 'webhooks', 'smarthosts', 'keys']},
	{title: 'Recipients', places: ['suppressions', 'topics', 'contacts']},
	{title: 'Installation', places: ['workspaces', 'users', 'audit', 'alerts', 'health']},
];
