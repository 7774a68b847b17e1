//! What stops the build, and what it says. What compiled templates say is held in the tests of `tree`.

use super::*;

#[test]
fn what_a_template_may_not_use_stops_the_build() {
    let layouts = [layout("layout.txt", "LAYOUT", "{% block a %}{% endblock %}").unwrap()];
    for (source, said) in [
        ("{{ 1 + }}", "line 1"),
        (
            "a\n{% set b = 1 %}",
            "line 2: templates may use if, for, block and extends",
        ),
        ("{% include 'b' %}", "templates may use"),
        ("{{ a + b }}", "named by its path"),
        ("{{ a[0] }}", "named by its path"),
        ("{{ 'a' }}", "named by its path"),
        ("{{ a|upper }}", "the filters are"),
        ("{{ a|link|paragraph }}", "named by its path"),
        ("{{ a|link(1) }}", "in brackets"),
        ("{{ a() }}", "the one call"),
        ("{{ self.a() }}", "the one call"),
        ("{{ loop.index }}", "not a name of a value"),
        ("{% if a == b %}{% endif %}", "compared with a text"),
        ("{% if a == 1 %}{% endif %}", "compared with a text"),
        ("{% if a < 'b' %}{% endif %}", "conditions are"),
        ("{% if a == 'b' == 'c' %}{% endif %}", "conditions are"),
        ("{% if -a %}{% endif %}", "conditions are"),
        ("{% if a is none %}{% endif %}", "conditions are"),
        ("{% for a, b in c %}{% endfor %}", "one name"),
        ("{% for a in b if a %}{% endfor %}", "a whole list"),
        ("{% for loop in b %}{% endfor %}", "reserved"),
        ("{% block a %}{% endblock %}", "needs a layout"),
        ("{% extends 'layout.txt' %}{% block b %}{% endblock %}", "has no block"),
        ("{% extends 'layout.txt' %}text", "everything stands in a block"),
        ("{% extends 'layout.txt' %}{{ a }}", "everything stands in a block"),
        (
            "{% extends 'layout.txt' %}{% block a %}{% block b %}{% endblock %}{% endblock %}",
            "in no other block",
        ),
        ("{% extends 'other.txt' %}", "there is no layout"),
        ("{% extends other %}", "by its name"),
    ] {
        let refused = part("x/body.txt", source, &layouts).unwrap_err();
        assert!(
            refused.starts_with("templates/x/body.txt: ") && refused.contains(said),
            "{source}: {refused}"
        );
    }
    for (source, said) in [
        ("{{ self.a() }}", "no block of that name"),
        ("{% block a %}{{ self.a() }}{% endblock %}", "outside the blocks"),
        ("{% extends 'layout.txt' %}", "a layout none"),
        ("{% for a in b %}{% block c %}{% endblock %}{% endfor %}", "in no loop"),
    ] {
        let refused = layout("layout.html", "LAYOUT", source).map(drop).unwrap_err();
        assert!(refused.contains(said), "{source}: {refused}");
    }
}
