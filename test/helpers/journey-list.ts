/** The environment's name for the tests that run: `quick` (npm test) or `slow`; unset: those that are named. */
export const stageVariable = 'TEST_STAGE';

/**
 * What people do with the dashboard, by the file of `test/dashboard/journeys` that walks it: each once by mouse, and once by the
 * keyboard alone (Tab, Enter, Space, arrows, `/`, `j`, `g` and a letter). `npm test` leaves the keyboard's to the slow
 * tests.
 */
export const journeys = {
	people: [
		'one comes by a link, sets a password, and logs in with it',
		'one logs out everywhere else',
		'a user is added, and their role changed',
		'a viewer goes everywhere and finds nothing to change',
	],
	workspaces: [
		'what another workspace has stays unseen',
		'one looks at another workspace',
		'a workspace is paused, what it sends is refused, and it is resumed',
		'a key is made, replaced and ended',
	],
	messages: [
		'a captured mail is opened and seen',
		'an order is found by its number',
		'why a mail waits is found, and it is released',
		'a scheduled mail is found, gets another time, and is cancelled',
		'a bounce is found, and how it was read',
		'returned mail is explained',
	],
	templates: [
		'a template is edited with its preview beside it, and rolled back',
		'two versions of a template are compared',
		'a layout is made and chosen, and a change of it is looked at before it is saved',
		'a variable is made sensitive, and a message no longer shows it',
	],
	recipients: [
		'a list of 100,000 addresses is imported, one of them found and let go',
		'suppressions are exported',
		'a default topic is made, and one unsubscribe stops no more than it',
		'a person gets a link, chooses, and their contact shows it',
	],
	domains: [
		'a domain is added, and DNS turns green while one looks',
		'who sends as the domain is seen, and the next policy is copied',
	],
	smarthosts: ['a provider’s URL is made, its bounce arrives, the URL is renewed and removed'],
	received: ['an address is added, a mail that came in is read, its file is there, and it is deleted'],
	webhooks: ['webhooks are replayed after an outage', 'an endpoint is added and tested'],
} as const;

export type JourneyFile = keyof typeof journeys;
export type JourneyTitle<File extends JourneyFile> = (typeof journeys)[File][number];
