# The library of every job: . /job/lib/lib.sh
for part in report net cards pair initiator srptd verbs lio store io; do
	. /job/lib/$part.sh
done
