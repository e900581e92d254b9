import {getDomain} from 'tldts';

const options = {allowPrivateDomains: true, extractHostname: false, validateHostname: false} as const;

/**
 * The domain that somebody registered, by the Public Suffix List: `shop.co.uk` for `mail.eu.shop.co.uk`. `null` for an
 * address and for a public suffix. Import this file only in threads and commands that read reports: the list takes 30
 * ms and 8 MB.
 */
export const registeredDomain = (host: string): string | null => getDomain(host, options);
