//! Endings of file names that the provider refuses. Refused at the intake, so that a mail is not lost to it later.

/// In lower case, sorted.
/// <https://resend.com/docs/knowledge-base/what-attachment-types-are-not-supported>
#[rustfmt::skip]
const REFUSED: [&str; 89] = [
    "adp", "app", "asp", "bas", "bat", "cer", "chm", "cmd", "com", "cpl", "crt", "csh", "der", "exe", "fxp", "gadget",
    "hlp", "hta", "inf", "ins", "isp", "its", "js", "jse", "ksh", "lib", "lnk", "mad", "maf", "mag", "mam", "maq",
    "mar", "mas", "mat", "mau", "mav", "maw", "mda", "mdb", "mde", "mdt", "mdw", "mdz", "msc", "msh", "msh1",
    "msh1xml", "msh2", "msh2xml", "mshxml", "msi", "msp", "mst", "ops", "pcd", "pif", "plg", "prf", "prg", "ps1",
    "ps1xml", "ps2", "ps2xml", "psc1", "psc2", "reg", "scf", "scr", "sct", "shb", "shs", "sys", "tmp", "url", "vb",
    "vbe", "vbs", "vps", "vsmacros", "vss", "vst", "vsw", "vxd", "ws", "wsc", "wsf", "wsh", "xnk",
];

/// Whether the provider refuses files whose names end in a dot and this, in whatever case.
pub(super) fn is_refused(ending: &str) -> bool {
    REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_in_lower_case() {
        assert!(REFUSED.is_sorted());
        assert!(
            REFUSED
                .iter()
                .all(|ending| ending.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9')))
        );
        assert!(is_refused("exe") && is_refused("JS") && is_refused("Ps1xml"));
        assert!(!is_refused("pdf") && !is_refused("") && !is_refused("json"));
    }
}
